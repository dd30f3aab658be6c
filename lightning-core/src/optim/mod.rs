//! The optimizer's rules around the AdamW operation: schedules and the device state block.

mod schedule;
mod state;

pub use schedule::{Decay, Schedule, WsdStyle};
pub use state::{STATE_SLOTS, StateSlot};
