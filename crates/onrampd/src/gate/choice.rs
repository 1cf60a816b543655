//! Which gate holds packets: an eBPF program, the module, or none. Pure.

use crate::config::{GateKind, Parent};
use serde::{Deserialize, Serialize};

/// Kind of the gate, as the status tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// "bpf", "module" or "none".
    pub kind: String,
    /// Why it is that.
    pub why: String,
}

/// A gate that is to be had.
#[derive(Debug, PartialEq, Eq)]
pub enum Gate<P> {
    /// This program.
    Program(P),
    /// The module.
    Module,
    /// None: packets are only looked at.
    None,
}

impl Choice {
    /// None is needed.
    #[must_use]
    pub fn observe() -> Self {
        Self { kind: "none".into(), why: "the mode is observe".into() }
    }
}

/// Chooses a gate to enforce with, as configured. `program` loads one, `module` tries whether the kernel has the module; either is
/// asked only if it matters.
///
/// # Errors
/// A gate asked for by name is not to be had.
pub fn choose<P, E: ToString>(
    wanted: GateKind,
    parent: Parent,
    program: impl FnOnce() -> Result<P, E>,
    module: impl FnOnce() -> Result<(), E>,
) -> Result<(Gate<P>, Choice), E> {
    let chosen = |gate, kind: &str, why: String| Ok((gate, Choice { kind: kind.into(), why }));
    let configured = || "as configured".to_owned();
    let why_not = match wanted {
        GateKind::None => return chosen(Gate::None, "none", configured()),
        GateKind::Bpf => return chosen(Gate::Program(program()?), "bpf", configured()),
        GateKind::Module => {
            module()?;
            return chosen(Gate::Module, "module", configured());
        }
        GateKind::Auto if matches!(parent, Parent::Class(_)) => {
            "a program goes to the root or below mq only".to_owned()
        }
        GateKind::Auto => match program() {
            Ok(program) => return chosen(Gate::Program(program), "bpf", "this kernel takes a program".into()),
            Err(e) => e.to_string(),
        },
    };
    match module() {
        Ok(()) => chosen(Gate::Module, "module", why_not),
        Err(e) => chosen(Gate::None, "none", format!("{why_not}; {}", e.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Tried = Result<(), &'static str>;

    fn told(wanted: GateKind, program: Tried, module: Tried) -> Result<(Gate<()>, String), &'static str> {
        below(Parent::Auto, wanted, program, module)
    }

    fn below(at: Parent, wanted: GateKind, program: Tried, module: Tried) -> Result<(Gate<()>, String), &'static str> {
        let chosen = choose(wanted, at, || program, || module);
        chosen.map(|(gate, choice)| (gate, format!("{}: {}", choice.kind, choice.why)))
    }

    #[test]
    fn a_program_comes_before_the_module_and_that_before_nothing() {
        let auto = GateKind::Auto;
        let takes = "bpf: this kernel takes a program".to_owned();
        assert_eq!(told(auto, Ok(()), Ok(())), Ok((Gate::Program(()), takes)));
        assert_eq!(told(auto, Err("too old"), Ok(())), Ok((Gate::Module, "module: too old".into())));
        assert_eq!(told(auto, Err("old"), Err("not built")), Ok((Gate::None, "none: old; not built".into())));
        let class = "module: a program goes to the root or below mq only".to_owned();
        assert_eq!(below(Parent::Class(1 << 16 | 1), auto, Ok(()), Ok(())), Ok((Gate::Module, class)));
    }

    #[test]
    fn what_is_asked_for_is_taken_or_refused() {
        assert_eq!(told(GateKind::Bpf, Err("too old"), Ok(())), Err("too old"));
        assert_eq!(told(GateKind::Module, Ok(()), Err("not built")), Err("not built"));
        let configured = |kind: &str| format!("{kind}: as configured");
        assert_eq!(told(GateKind::Module, Ok(()), Ok(())), Ok((Gate::Module, configured("module"))));
        assert_eq!(told(GateKind::None, Ok(()), Ok(())), Ok((Gate::None, configured("none"))));
    }
}
