//! The maps of eBPF programs, by what their keys and values are.

use bytemuck::{Pod, bytes_of};
use libbpf_rs::{MapCore as _, MapFlags, MapHandle, Object, Result, RingBuffer, RingBufferBuilder};
use std::io;
use std::marker::PhantomData;
use std::sync::mpsc::{Receiver, channel};

/// A map of keys and values of these kinds. Where each CPU has its own value, `get_all` is for it.
pub struct Map<K, V> {
    handle: MapHandle,
    of: PhantomData<fn(K) -> V>,
}

impl<K: Pod, V: Pod> Map<K, V> {
    /// The map of an object, which it may outlive.
    ///
    /// # Errors
    /// There is none of that name, or its keys and values are of other sizes.
    pub fn find(object: &Object, name: &str) -> Result<Self> {
        let map = object.maps().find(|map| map.name() == name).ok_or_else(absent)?;
        let (keys, values) = (map.key_size() as usize, map.value_size() as usize);
        if (keys, values) != (size_of::<K>(), size_of::<V>()) {
            return Err(io::Error::other(format!("keys and values of {keys} and {values} bytes are not ours")).into());
        }
        Ok(Self { handle: MapHandle::try_from(&map)?, of: PhantomData })
    }

    /// The value of a key.
    ///
    /// # Errors
    /// There is none, or what the kernel answered.
    pub fn get(&self, key: &K) -> Result<V> {
        let value = self.handle.lookup(bytes_of(key), MapFlags::ANY)?;
        Ok(value.and_then(|value| read(&value)).ok_or_else(absent)?)
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set(&self, key: &K, value: &V) -> Result<()> {
        self.handle.update(bytes_of(key), bytes_of(value), MapFlags::ANY)
    }

    /// Removes a key.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn remove(&self, key: &K) -> Result<()> {
        self.handle.delete(bytes_of(key))
    }

    /// The values of a key, of each CPU.
    ///
    /// # Errors
    /// As for [`Self::get`].
    pub fn get_all(&self, key: &K) -> Result<Vec<V>> {
        let values = self.handle.lookup_percpu(bytes_of(key), MapFlags::ANY)?;
        let values = values.and_then(|each| each.iter().map(|value| read(value)).collect());
        Ok(values.ok_or_else(absent)?)
    }

    /// Sets the values of a key, of each CPU.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_all(&self, key: &K, values: &[V]) -> Result<()> {
        let values: Vec<Vec<u8>> = values.iter().map(|value| bytes_of(value).to_vec()).collect();
        self.handle.update_percpu(bytes_of(key), &values, MapFlags::ANY)
    }

    /// Keys and values of this moment. In a map that changes meanwhile, some may be missing or come twice; and since
    /// the kernel begins anew where the key that was looked at last has gone, it ends after as many as there may be.
    pub fn iter(&self) -> impl Iterator<Item = (K, V)> + '_ {
        let most = self.handle.max_entries() as usize;
        let keys = self.handle.keys().take(2 * most).filter_map(|key| read(&key));
        keys.filter_map(|key| Some((key, self.get(&key).ok()?))).take(most)
    }
}

/// A ring buffer, read record by record.
pub struct Ring {
    ring: RingBuffer<'static>,
    records: Receiver<Vec<u8>>,
}

impl Ring {
    /// The one of an object, which it may outlive.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn find(object: &Object, name: &str) -> Result<Self> {
        let map = object.maps().find(|map| map.name() == name).ok_or_else(absent)?;
        let (sender, records) = channel();
        let mut builder = RingBufferBuilder::new();
        // Zero is "go on".
        builder.add(&map, move |record| sender.send(record.to_vec()).map_or(-1, |()| 0))?;
        Ok(Self { ring: builder.build()?, records })
    }

    /// The next record.
    pub fn take(&mut self) -> Option<Vec<u8>> {
        // One at a time: the ring has more room for the others.
        self.ring.consume_raw_n(1);
        self.records.try_recv().ok()
    }
}

/// A value of these bytes, if they are as many as it has.
pub(super) fn read<T: Pod>(bytes: &[u8]) -> Option<T> {
    bytemuck::try_pod_read_unaligned(bytes).ok()
}

fn absent() -> io::Error {
    io::ErrorKind::NotFound.into()
}
