//! The CUDA driver API 13.0 on virtual devices: what makes the shared library of this crate a `libcuda.so.1`.
//!
//! Every function of `cuda.h` is exported. Those in the files `api_*`, [`event`], [`pool`], [`launch`] and
//! [`virtual_memory`] do what the driver documents; those in [`unsupported`] return `CUDA_ERROR_NOT_SUPPORTED` and say on
//! standard error which function was called. Arguments are checked and answered with the documented codes; a message
//! that explains an error goes to standard error once.
//!
//! How it is put together: [`pointers`] is the border to the caller's memory, [`entry`] defines exported functions,
//! [`handles`] maps handles to objects, [`state`] holds devices and contexts. Streams and graphs carry [`work`] (and [`stream_values`]); see
//! [`stream`] for when it executes and [`capture`] for how it becomes a [`graph`]. [`image`], [`fatbin`] and [`cubin`] read
//! what programs load, [`occupancy`] says what fits, [`status`] maps faults to codes. [`event`] tells what
//! `cuEventElapsedTime` returns on a device that has no time.

pub mod allocations;
pub mod api_context;
pub mod api_copy;
pub mod api_device;
pub mod api_fill;
pub mod api_function;
pub mod api_graph;
pub mod api_graph_nodes;
pub mod api_init;
pub mod api_memory;
pub mod api_module;
pub mod api_stream;
pub mod api_tensormap;
pub mod capture;
pub mod counts;
pub mod cubin;
pub mod device_attributes;
pub mod entry;
pub mod event;
pub mod fatbin;
pub mod graph;
pub mod graph_attributes;
pub mod handles;
pub mod host_memory;
pub mod image;
pub mod launch;
pub mod occupancy;
pub mod pointers;
pub mod pool;
pub mod state;
pub mod status;
pub mod stream;
pub mod stream_values;
pub mod symbols;
pub mod unsupported;
pub mod virtual_memory;
pub mod work;
