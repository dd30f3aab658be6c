//! The verbs `import`, `export` and `roundtrip`: Hugging Face checkpoints in and out, tensor by tensor.
//!
//! Nothing is held as a whole: a worker has one file open for writing and a few megabytes of one tensor in memory
//! ([`stream::MEMORY_PER_WORKER`]), so that the resident memory of a conversion does not depend on the model. Files are
//! written in a draft folder beside the target, flushed, renamed, and the folder is renamed last; a conversion that was
//! killed goes on in its draft when it is started again.

pub mod args;
pub mod cast;
pub mod census;
mod draft;
mod dtypes;
pub mod error;
pub mod export;
pub mod import;
mod json;
mod places;
mod report;
mod roundtrip;
pub mod stream;
pub mod synthetic;
pub mod weights;

pub use args::{EXPORT_FLAGS, ExportArgs, IMPORT_FLAGS, ImportArgs, ROUNDTRIP_FLAGS, RoundtripArgs};
pub use census::Census;
pub use error::ConvertError;
pub use export::export;
pub use import::import;
pub use report::Report;
pub use roundtrip::roundtrip;
pub use weights::Weights;
