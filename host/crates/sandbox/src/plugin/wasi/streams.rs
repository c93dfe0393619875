//! File streams. wasmtime-wasi's streams do the reading and writing; the wrappers here keep the
//! file counted, and ask its mount before they write.

use std::sync::Arc;

use bytes::Bytes;
use wasmtime_wasi::{
    async_trait,
    filesystem::File,
    p2::{
        DynInputStream, DynOutputStream, FsResult, InputStream, OutputStream, Pollable,
        StreamError, StreamResult,
    },
    runtime::{AbortOnDropJoinHandle, spawn},
};

use super::{
    blocking::{self, expect_ready},
    files::{FUEL, OpenPermit},
    mount::{Mount, OpenFile},
};
use crate::plugin::late_fuel::LateFuel;

/// Bytes that may be written at once. Also bounds the allocation that `write-zeroes` causes on the
/// host.
const PERMIT: usize = 64 << 10;

/// Input stream of a file.
pub(super) struct Reader {
    inner: DynInputStream,
    late_fuel: LateFuel,
    _open_file: Option<Arc<OpenFile>>,
    _permit: Arc<OpenPermit>,
}

impl Reader {
    pub(super) fn open(
        inner: DynInputStream,
        open_file: Option<Arc<OpenFile>>,
        permit: Arc<OpenPermit>,
        late_fuel: LateFuel,
    ) -> DynInputStream {
        Box::new(Self { inner, late_fuel, _open_file: open_file, _permit: permit })
    }

    /// Charges fuel for a call to the file system and for each byte read.
    fn charge(&self, read: StreamResult<Bytes>) -> StreamResult<Bytes> {
        self.late_fuel.add(FUEL + read.as_ref().map_or(0, Bytes::len) as u64);
        read
    }
}

#[async_trait]
impl Pollable for Reader {
    async fn ready(&mut self) {
        self.inner.ready().await;
    }
}

#[async_trait]
impl InputStream for Reader {
    fn read(&mut self, size: usize) -> StreamResult<Bytes> {
        let read = self.inner.read(size);
        self.charge(read)
    }

    async fn blocking_read(&mut self, size: usize) -> StreamResult<Bytes> {
        let read = self.inner.blocking_read(size).await;
        self.charge(read)
    }

    async fn cancel(&mut self) {
        self.inner.cancel().await;
    }
}

/// Output stream of a file of a mount.
pub(super) struct FileWriter {
    mount: Arc<Mount>,
    file: File,
    /// Position of the next write; `None` for the end of the file.
    position: Option<u64>,
    state: WriterState,
    late_fuel: LateFuel,
    open_file: Option<Arc<OpenFile>>,
    _permit: Arc<OpenPermit>,
}

enum WriterState {
    Ready(DynOutputStream),
    Writing(AbortOnDropJoinHandle<Written>),
    Failed(StreamError),
    Closed,
}

/// The stream, for further use, and the result of the write.
type Written = (DynOutputStream, StreamResult<()>);

impl FileWriter {
    pub(super) fn open(
        mount: Arc<Mount>,
        file: &File,
        position: Option<u64>,
        open_file: Option<Arc<OpenFile>>,
        permit: Arc<OpenPermit>,
        late_fuel: LateFuel,
    ) -> FsResult<DynOutputStream> {
        let state = WriterState::Ready(blocking::output_stream(file, position)?);
        Ok(Box::new(Self {
            mount,
            file: file.clone(),
            position,
            state,
            late_fuel,
            open_file,
            _permit: permit,
        }))
    }

    /// Returns the error of the last operation once; afterwards the stream is closed.
    fn check(&mut self) -> StreamResult<()> {
        match std::mem::replace(&mut self.state, WriterState::Closed) {
            WriterState::Failed(error) => Err(error),
            WriterState::Closed => Err(StreamError::Closed),
            active @ (WriterState::Ready(_) | WriterState::Writing(_)) => {
                self.state = active;
                Ok(())
            }
        }
    }
}

#[async_trait]
impl Pollable for FileWriter {
    async fn ready(&mut self) {
        if let WriterState::Writing(writing) = &mut self.state {
            self.state = match writing.await {
                (stream, Ok(())) => WriterState::Ready(stream),
                (_, Err(error)) => WriterState::Failed(error),
            };
        }
    }
}

#[async_trait]
impl OutputStream for FileWriter {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.check()?;
        let mut stream = match std::mem::replace(&mut self.state, WriterState::Closed) {
            WriterState::Ready(stream) if bytes.len() <= PERMIT => stream,
            _ => return Err(StreamError::trap("more is written than check-write permitted")),
        };
        let length = bytes.len() as u64;
        self.late_fuel.add(FUEL + length);
        let position = self.position;
        if let Some(position) = &mut self.position {
            *position = position.saturating_add(length);
        }
        // The file stays counted while it is written to, even if the guest is gone.
        let file = self.file.clone();
        let open_file = self.open_file.clone();
        self.state = WriterState::Writing(spawn(self.mount.clone().change(move |guard| {
            let _open_file = open_file;
            let written = guard.resize(
                &file.file,
                |present| position.unwrap_or(present).saturating_add(length),
                || expect_ready(stream.blocking_write_and_flush(bytes)),
            );
            (stream, written)
        })));
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        self.check()
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        self.check()?;
        Ok(if matches!(self.state, WriterState::Ready(_)) { PERMIT } else { 0 })
    }

    async fn cancel(&mut self) {
        if let WriterState::Writing(writing) =
            std::mem::replace(&mut self.state, WriterState::Closed)
        {
            // A write that has begun is awaited, so that a guest cannot pile up abandoned writes.
            writing.cancel().await;
        }
    }
}
