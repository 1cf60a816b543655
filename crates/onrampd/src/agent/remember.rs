//! Writes down what is to be undone, before it is done.

use super::undo::{Touched, boot};
use super::{Agent, Error, io_error, notify};
use crate::gate::Gate;

impl Agent {
    pub(super) fn touched(&mut self, name: &str) -> &mut Touched {
        let at = self.undo.interfaces.iter().position(|t| t.name == name);
        let at = at.unwrap_or_else(|| {
            self.undo.interfaces.push(Touched { name: name.into(), ..Touched::default() });
            self.undo.interfaces.len() - 1
        });
        &mut self.undo.interfaces[at]
    }

    pub(super) fn remember(&mut self) -> Result<(), Error> {
        let mut maps = self.datapath.shared()?;
        if let Gate::Program(program) = &self.gate {
            maps.extend(program.shared()?);
        }
        self.undo.maps = maps.iter().filter_map(|map| Some(map.info().ok()?.id)).collect();
        self.undo.boot = boot();
        self.undo.parent = Some(self.config.parent);
        self.undo.socket = Some(self.config.socket.clone());
        notify::keep(&maps);
        self.undo_file.write(&self.undo).map_err(io_error("what must be undone cannot be written down"))
    }
}
