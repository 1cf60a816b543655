//! Two hosts joined by a cable.
