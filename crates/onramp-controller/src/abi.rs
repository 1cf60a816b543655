//! The interface between simulator and library, as C has it.
//!
//! A library has one symbol, `ONRAMP_CONTROLLERS`, a [`Module`]; a controller is a [`Table`] of functions. Whoever
//! writes one in another language than Rust finds all there is to know here.

use crate::{Ack, Controller, Env, Hop, Keys, Loss, Permit, Sent};
use std::cell::RefCell;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

/// Version of the interface. A library of another one is refused.
pub const VERSION: u32 = 1;

/// UTF-8 that belongs to who passes it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Text<'a> {
    start: *const u8,
    bytes: usize,
    of: PhantomData<&'a str>,
}

// SAFETY: it is a &str.
unsafe impl Send for Text<'_> {}
// SAFETY: it is a &str.
unsafe impl Sync for Text<'_> {}

impl<'a> Text<'a> {
    /// Of a string.
    pub const fn new(text: &'a str) -> Self {
        Self { start: text.as_ptr(), bytes: text.len(), of: PhantomData }
    }

    /// The string; empty if it is not UTF-8.
    pub fn text(&self) -> &'a str {
        // SAFETY: whoever made it says that so many bytes are there for 'a.
        let bytes = unsafe { std::slice::from_raw_parts(self.start, self.bytes) };
        std::str::from_utf8(bytes).unwrap_or_default()
    }
}

/// Kind of a key's value.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// None of the others: its text alone says it.
    Text = 0,
    /// A number without a unit.
    Number = 1,
    /// Bytes.
    Bytes = 2,
    /// A rate in bit/s.
    Rate = 3,
    /// A time in picoseconds.
    Time = 4,
    /// 0 or 1.
    Flag = 5,
}

/// A key of the scenario.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    /// Its name.
    pub name: Text<'a>,
    /// Its value as TOML has it.
    pub text: Text<'a>,
    /// Kind of its value.
    pub kind: Kind,
    /// The value in its base unit; 0 for text.
    pub value: f64,
}

/// Receiver of what a library has to say: why it refuses keys, how it failed.
#[repr(C)]
#[derive(Debug)]
pub struct Listener {
    /// First argument of `hear`.
    pub to: *mut c_void,
    /// Takes a message, which it copies.
    pub hear: unsafe extern "C" fn(*mut c_void, Text<'_>),
}

/// [`Ack`] as C has it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Acked {
    /// As [`Ack::now`].
    pub now: u64,
    /// As [`Ack::rtt`].
    pub rtt: u64,
    /// As [`Ack::endpoint`].
    pub endpoint: u64,
    /// As [`Ack::acked`].
    pub acked: u64,
    /// As [`Ack::next`].
    pub next: u64,
    /// As [`Ack::newly_acked`].
    pub newly_acked: u64,
    /// As [`Ack::in_flight`].
    pub in_flight: u64,
    /// As [`Ack::delivery_rate`]; NaN for none.
    pub delivery_rate: f64,
    /// Records of the switches,
    pub hops: *const Hop,
    /// so many.
    pub hop_count: usize,
    /// As [`Ack::ecn`].
    pub ecn: bool,
    /// As [`Ack::trimmed`].
    pub trimmed: bool,
}

impl Acked {
    /// Of an ACK, for as long as its records are there.
    pub fn new(ack: &Ack<'_>) -> Self {
        let Ack { now, rtt, endpoint, ecn, trimmed, acked, next, newly_acked, in_flight, delivery_rate, hops } = *ack;
        let delivery_rate = delivery_rate.unwrap_or(f64::NAN);
        let (hops, hop_count) = (hops.as_ptr(), hops.len());
        Self { now, rtt, endpoint, acked, next, newly_acked, in_flight, delivery_rate, hops, hop_count, ecn, trimmed }
    }

    /// # Safety
    /// `hops` leads to as many records as it says.
    unsafe fn ack(&self) -> Ack<'_> {
        let Self {
            now,
            rtt,
            endpoint,
            acked,
            next,
            newly_acked,
            in_flight,
            delivery_rate,
            hops,
            hop_count,
            ecn,
            trimmed,
        } = *self;
        let delivery_rate = (!delivery_rate.is_nan()).then_some(delivery_rate);
        // SAFETY: the caller's promise.
        let hops = unsafe { std::slice::from_raw_parts(hops, hop_count) };
        Ack { now, rtt, endpoint, ecn, trimmed, acked, next, newly_acked, in_flight, delivery_rate, hops }
    }
}

/// Parameters of a controller, or the state of one flow: its library alone knows what is behind it.
pub type Opaque = *mut c_void;

/// Functions of a controller. All may be called from any thread, those of one flow from one at a time. One that returns
/// a `bool` says whether it went well; else it has said why, and the flow's other functions are not called any more.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// Its name.
    pub name: Text<'static>,
    /// Reads parameters; null: refused, and said why.
    pub read: unsafe extern "C" fn(keys: *const Key<'_>, count: usize, listener: *const Listener) -> Opaque,
    /// Gives parameters back.
    pub forget: unsafe extern "C" fn(parameters: Opaque),
    /// A new flow; null: failed.
    pub start: unsafe extern "C" fn(parameters: Opaque, env: *const Env, listener: *const Listener) -> Opaque,
    /// A flow is over.
    pub end: unsafe extern "C" fn(flow: Opaque),
    /// As [`Controller::on_path`].
    pub on_path: unsafe extern "C" fn(flow: Opaque, hops: u32, listener: *const Listener) -> bool,
    /// As [`Controller::on_ack`].
    pub on_ack: unsafe extern "C" fn(Opaque, flow: Opaque, *const Env, *const Acked, *const Listener) -> bool,
    /// As [`Controller::on_loss`].
    pub on_loss: unsafe extern "C" fn(Opaque, flow: Opaque, *const Env, now: u64, Loss, *const Listener) -> bool,
    /// As [`Controller::on_sent`].
    pub on_sent: unsafe extern "C" fn(Opaque, flow: Opaque, *const Env, *const Sent, *const Listener) -> bool,
    /// As [`Controller::permit`].
    pub permit: unsafe extern "C" fn(Opaque, flow: Opaque, *const Env, now: u64, *mut Permit, *const Listener) -> bool,
}

/// All that a library has.
#[repr(C)]
#[derive(Debug)]
pub struct Module {
    /// [`VERSION`]; what follows is as that version has it.
    pub version: u32,
    /// Controllers,
    pub tables: *const Table,
    /// so many.
    pub count: usize,
}

// SAFETY: nothing behind it changes.
unsafe impl Sync for Module {}

/// Name of the symbol, with C's end.
pub const SYMBOL: &[u8] = b"ONRAMP_CONTROLLERS\0";

/// Names the controllers of a library: `controllers! { "name" => Type, … }`.
#[macro_export]
macro_rules! controllers {
    ($($name:literal => $controller:ty),+ $(,)?) => {
        /// Controllers that the simulator finds here.
        #[unsafe(no_mangle)]
        pub static ONRAMP_CONTROLLERS: $crate::abi::Module = {
            const TABLES: &[$crate::abi::Table] = &[$($crate::abi::Table::of::<$controller>($name)),+];
            $crate::abi::Module { version: $crate::abi::VERSION, tables: TABLES.as_ptr(), count: TABLES.len() }
        };
    };
}

impl Table {
    /// Of a controller.
    pub const fn of<C: Controller>(name: &'static str) -> Self {
        Self {
            name: Text::new(name),
            read: read::<C>,
            forget: forget::<C>,
            start: start::<C>,
            end: end::<C>,
            on_path: on_path::<C>,
            on_ack: on_ack::<C>,
            on_loss: on_loss::<C>,
            on_sent: on_sent::<C>,
            permit: permit::<C>,
        }
    }
}

thread_local! {
    /// The last panic of the thread, with its place.
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// A library has a standard library of its own, so its panics are told to its listener and to nobody else.
fn listen_to_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        std::panic::set_hook(Box::new(|info| {
            let place = info.location().map(ToString::to_string).unwrap_or_default();
            let payload = info.payload();
            let said = payload.downcast_ref::<&str>().copied();
            let said = said.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
            let said = said.unwrap_or("it panicked").replace('\n', " ");
            PANIC.with(|last| *last.borrow_mut() = format!("{place}: {said}"));
        }));
    });
}

/// Answer of `body`; `None` if it panics, which the listener hears.
fn guarded<T>(listener: *const Listener, body: impl FnOnce() -> T) -> Option<T> {
    let answer = catch_unwind(AssertUnwindSafe(body)).ok();
    if answer.is_none() {
        PANIC.with(|last| say(listener, &last.borrow()));
    }
    answer
}

fn say(listener: *const Listener, message: &str) {
    // SAFETY: who calls a function of a table gives it a listener that is there until it returns.
    unsafe { ((*listener).hear)((*listener).to, Text::new(message)) };
}

// SAFETY of all that follows: the simulator passes what `read` and `start` have returned, before it is given back, and
// pointers to what is there until the function returns.

unsafe extern "C" fn read<C: Controller>(keys: *const Key<'_>, count: usize, listener: *const Listener) -> Opaque {
    listen_to_panics();
    let keys = Keys::new(unsafe { std::slice::from_raw_parts(keys, count) });
    let parameters = guarded(listener, || C::read(&keys).and_then(|parameters| keys.finish().map(|()| parameters)));
    match parameters {
        Some(Ok(parameters)) => Box::into_raw(Box::new(parameters)).cast(),
        Some(Err(message)) => {
            say(listener, &message);
            std::ptr::null_mut()
        }
        None => std::ptr::null_mut(),
    }
}

unsafe extern "C" fn forget<C: Controller>(parameters: Opaque) {
    drop(unsafe { Box::from_raw(parameters.cast::<C::Parameters>()) });
}

unsafe extern "C" fn start<C: Controller>(parameters: Opaque, env: *const Env, listener: *const Listener) -> Opaque {
    let new = || C::new(unsafe { &*parameters.cast::<C::Parameters>() }, unsafe { &*env });
    guarded(listener, new).map_or(std::ptr::null_mut(), |flow| Box::into_raw(Box::new(flow)).cast())
}

unsafe extern "C" fn end<C: Controller>(flow: Opaque) {
    drop(unsafe { Box::from_raw(flow.cast::<C>()) });
}

unsafe extern "C" fn on_path<C: Controller>(flow: Opaque, hops: u32, listener: *const Listener) -> bool {
    guarded(listener, || unsafe { &mut *flow.cast::<C>() }.on_path(hops)).is_some()
}

unsafe extern "C" fn on_ack<C: Controller>(
    parameters: Opaque,
    flow: Opaque,
    env: *const Env,
    acked: *const Acked,
    listener: *const Listener,
) -> bool {
    guarded(listener, || unsafe {
        (*flow.cast::<C>()).on_ack(&*parameters.cast(), &*env, &(*acked).ack());
    })
    .is_some()
}

unsafe extern "C" fn on_loss<C: Controller>(
    parameters: Opaque,
    flow: Opaque,
    env: *const Env,
    now: u64,
    loss: Loss,
    listener: *const Listener,
) -> bool {
    guarded(listener, || unsafe { (*flow.cast::<C>()).on_loss(&*parameters.cast(), &*env, now, loss) }).is_some()
}

unsafe extern "C" fn on_sent<C: Controller>(
    parameters: Opaque,
    flow: Opaque,
    env: *const Env,
    sent: *const Sent,
    listener: *const Listener,
) -> bool {
    guarded(listener, || unsafe { (*flow.cast::<C>()).on_sent(&*parameters.cast(), &*env, &*sent) }).is_some()
}

unsafe extern "C" fn permit<C: Controller>(
    parameters: Opaque,
    flow: Opaque,
    env: *const Env,
    now: u64,
    to: *mut Permit,
    listener: *const Listener,
) -> bool {
    guarded(listener, || unsafe { *to = (*flow.cast::<C>()).permit(&*parameters.cast(), &*env, now) }).is_some()
}
