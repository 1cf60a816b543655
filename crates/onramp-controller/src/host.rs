//! The simulator's side: libraries with controllers, opened.

use crate::abi::{Acked, Key, Listener, Module, Opaque, SYMBOL, Table, Text, VERSION};
use crate::{Ack, Env, Loss, Permit, Sent};
use std::ffi::c_void;
use std::path::Path;
use std::ptr;
use std::sync::{Arc, OnceLock};

/// A library that is open.
#[derive(Debug)]
struct Open {
    tables: *const Table,
    count: usize,
    /// Stays as long as anything points into it.
    _library: libloading::Library,
}

/// A controller of a library with its parameters.
#[derive(Debug)]
pub struct Parameters {
    table: Table,
    parameters: Opaque,
    failure: OnceLock<String>,
    /// Dropped last.
    _open: Open,
}

// SAFETY: a controller's parameters are Send and Sync, and nothing else behind the pointers changes.
unsafe impl Send for Parameters {}
// SAFETY: as above.
unsafe impl Sync for Parameters {}

/// Opens the library at `path`.
fn open(path: &Path) -> Result<Open, String> {
    // Without a folder in its name the system would look for it elsewhere.
    let path = std::path::absolute(path).map_err(|e| e.to_string())?;
    if !path.exists() {
        return Err(
            "is not there; `cargo build --release` makes it, in target/release (Rust: https://rustup.rs)".into()
        );
    }
    let cannot = |e: libloading::Error| format!("cannot be loaded: {e}");
    // SAFETY: whoever names a library in a scenario has its code run.
    let library = unsafe { libloading::Library::new(path) }.map_err(cannot)?;
    // SAFETY: a library that has the symbol means this by it, as its version says.
    let module = unsafe { library.get::<*const Module>(SYMBOL) }.map(|symbol| *symbol).ok();
    let Some(module) = module else {
        return Err("has no controllers: is `controllers!` in its lib.rs?".into());
    };
    // SAFETY: all versions begin with their number.
    let version = unsafe { (*module).version };
    if version != VERSION {
        let how = "write it anew with `onramp new controller`, and move your code there";
        return Err(format!("is of version {version} of the interface; this simulator has version {VERSION}: {how}"));
    }
    // SAFETY: it is of this version.
    let (tables, count) = unsafe { ((*module).tables, (*module).count) };
    Ok(Open { tables, count, _library: library })
}

impl Open {
    fn tables(&self) -> &[Table] {
        // SAFETY: the library, which is open, says that so many are there.
        unsafe { std::slice::from_raw_parts(self.tables, self.count) }
    }
}

impl Parameters {
    /// Has the controller called `name` of the library at `path` read its keys.
    ///
    /// # Errors
    /// A sentence: it cannot be opened, does not have that controller, or refuses a key.
    pub fn read(path: &Path, name: &str, keys: &[Key<'_>]) -> Result<Arc<Self>, String> {
        let open = open(path)?;
        let Some(&table) = open.tables().iter().find(|table| table.name.text() == name) else {
            let known: Vec<&str> = open.tables().iter().map(|table| table.name.text()).collect();
            return Err(format!("has no controller \"{name}\", only {}", known.join(", ")));
        };
        let mut said = String::new();
        let listener = Listener { to: ptr::from_mut(&mut said).cast(), hear };
        // SAFETY: keys and listener are there until it returns.
        let parameters = unsafe { (table.read)(keys.as_ptr(), keys.len(), &listener) };
        if parameters.is_null() {
            return Err(said);
        }
        Ok(Arc::new(Self { table, parameters, failure: OnceLock::new(), _open: open }))
    }

    /// How a flow's controller failed, if one has.
    pub fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// Answer of `call`; if it failed, why is kept.
    fn heard<T>(&self, call: impl FnOnce(*const Listener) -> T, went_well: impl FnOnce(&T) -> bool) -> T {
        let mut said = String::new();
        let listener = Listener { to: ptr::from_mut(&mut said).cast(), hear };
        let answer = call(&listener);
        if !went_well(&answer) {
            // The first says why; others may follow from it.
            let _ = self.failure.set(said);
        }
        answer
    }
}

impl Drop for Parameters {
    fn drop(&mut self) {
        // SAFETY: flows keep parameters alive, so that none is left.
        unsafe { (self.table.forget)(self.parameters) }
    }
}

unsafe extern "C" fn hear(to: *mut c_void, message: Text<'_>) {
    // SAFETY: it is the string of who made the listener.
    unsafe { &mut *to.cast::<String>() }.push_str(message.text());
}

/// A flow's controller.
#[derive(Debug)]
pub struct Flow {
    /// Null once it has failed: then it limits nothing.
    state: Opaque,
    of: Arc<Parameters>,
}

// SAFETY: controllers are Send and Sync.
unsafe impl Send for Flow {}
// SAFETY: as above.
unsafe impl Sync for Flow {}

impl Flow {
    /// A new flow.
    pub fn new(of: &Arc<Parameters>, env: &Env) -> Self {
        // SAFETY: the parameters are the table's.
        let start = |listener| unsafe { (of.table.start)(of.parameters, env, listener) };
        Self { state: of.heard(start, |state| !state.is_null()), of: Arc::clone(of) }
    }

    fn call(&mut self, call: impl FnOnce(&Table, Opaque, Opaque, *const Listener) -> bool) -> bool {
        if self.state.is_null() {
            return false;
        }
        let (of, state) = (&self.of, self.state);
        let well = of.heard(|listener| call(&of.table, of.parameters, state, listener), |well| *well);
        if !well {
            // What it left half done is not asked again, not even to end.
            self.state = ptr::null_mut();
        }
        well
    }

    /// See [`crate::Controller::on_path`].
    pub fn on_path(&mut self, hops: u32) {
        // SAFETY: here and below: the state is the table's, the rest is there until it returns.
        self.call(|table, _, state, listener| unsafe { (table.on_path)(state, hops, listener) });
    }

    /// See [`crate::Controller::on_ack`].
    pub fn on_ack(&mut self, env: &Env, ack: &Ack<'_>) {
        let acked = Acked::new(ack);
        self.call(|table, own, state, listener| unsafe { (table.on_ack)(own, state, env, &acked, listener) });
    }

    /// See [`crate::Controller::on_loss`].
    pub fn on_loss(&mut self, env: &Env, now: u64, loss: Loss) {
        self.call(|table, own, state, listener| unsafe { (table.on_loss)(own, state, env, now, loss, listener) });
    }

    /// See [`crate::Controller::on_sent`].
    pub fn on_sent(&mut self, env: &Env, sent: &Sent) {
        self.call(|table, own, state, listener| unsafe { (table.on_sent)(own, state, env, sent, listener) });
    }

    /// See [`crate::Controller::permit`]; the link's rate once it has failed.
    pub fn permit(&mut self, env: &Env, now: u64) -> Permit {
        let mut permit = Permit { window: u64::MAX, rate: env.line_rate };
        self.call(|table, own, state, listener| unsafe { (table.permit)(own, state, env, now, &mut permit, listener) });
        if permit.rate.is_nan() || permit.rate < 0.0 {
            let _ = self.of.failure.set(format!("permit has a rate of {}", permit.rate));
            permit.rate = env.line_rate;
        }
        permit
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        if !self.state.is_null() {
            // SAFETY: it was started and has not ended.
            unsafe { (self.of.table.end)(self.state) }
        }
    }
}
