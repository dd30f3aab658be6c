//! TensorBoard event files, written without TensorFlow: records with masked CRC-32C around protocol buffers.

mod event;
mod record;
mod writer;

pub use event::{file_version, scalars, session_start};
pub use record::{crc32c, frame, frames};
pub use writer::EventWriter;
