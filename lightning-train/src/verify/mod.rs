//! Checks of the verb `verify`.

mod checkpoint;
mod parity;
mod resume;
pub mod same;

pub use checkpoint::{VERIFY_CHECKPOINT_FLAGS, VerifyCheckpointArgs, checkpoint, examine};
pub use parity::parity;
pub use resume::resume;
pub use same::{VERIFY_SAME_FLAGS, VerifySameArgs, same};
