//! What every block needs while it records itself: the builder, the model's tensors and the document bounds.

use super::{Model, Precision};
use crate::layout::ParamIndex;
use crate::ops::{LinearBwd, LinearFwd};
use crate::program::{Builder, Op};
use crate::tensor::{DType, Tensor};
use alloc::string::String;

/// A program in the making.
pub struct Context<'m> {
    /// The model that is being recorded.
    pub model: &'m Model,
    /// The list of operations.
    pub builder: Builder,
    /// Whether a backward pass will follow.
    pub backward: bool,
    /// First token of each token's document [t].
    pub start: Tensor,
    /// One past the last token of each token's document [t].
    pub end: Tensor,
}

impl Context<'_> {
    /// Tokens of the micro-batch.
    pub fn tokens(&self) -> usize {
        self.model.spec.batch.tokens()
    }

    /// Number formats.
    pub fn precision(&self) -> Precision {
        self.model.spec.precision
    }

    /// A new activation [t, cols].
    pub fn activation(&mut self, name: &str, cols: usize) -> Tensor {
        let (rows, act) = (self.tokens(), self.precision().act);
        self.builder.tensor(name, act, rows, cols)
    }

    /// A new tensor in the arithmetic type.
    pub fn statistics(&mut self, name: &str, rows: usize, cols: usize) -> Tensor {
        let acc = self.precision().acc();
        self.builder.tensor(name, acc, rows, cols)
    }

    /// A new integer tensor.
    pub fn integers(&mut self, name: &str, rows: usize, cols: usize) -> Tensor {
        self.builder.tensor(name, DType::I32, rows, cols)
    }

    /// The working weight of a parameter.
    pub fn weight(&self, index: ParamIndex) -> Tensor {
        self.model.params[index].weight
    }

    /// The gradient of a parameter and whether the next contribution adds to it.
    pub fn gradient(&mut self, index: ParamIndex) -> (Tensor, bool) {
        let training = self.model.params[index].training.as_ref();
        let gradient = training.expect("a backward pass is recorded for trained parameters").gradient;
        let accumulate = self.builder.accumulates(gradient);
        (gradient, accumulate)
    }

    /// Appends an operation.
    pub fn push(&mut self, op: impl Into<Op>) {
        self.builder.push(op);
    }

    /// Names the following part of the model.
    pub fn region(&mut self, name: impl Into<String>) {
        self.builder.region(name);
    }

    /// `y = x W^T`.
    pub fn linear(&mut self, name: &str, w: ParamIndex, x: Tensor) -> Tensor {
        let w = self.weight(w);
        let y = self.activation(name, w.rows);
        self.push(LinearFwd { x, w, y, adapter: None });
        y
    }

    /// Gradients of [`Context::linear`]: `dx = dy W` into a new tensor, `dW += dy^T x`.
    pub fn linear_backward(&mut self, name: &str, w: ParamIndex, x: Tensor, dy: Tensor) -> Tensor {
        let dx = self.activation(name, x.cols);
        self.linear_backward_into(w, x, dy, dx, false);
        dx
    }

    /// As [`Context::linear_backward`], into (or added to) an existing gradient of the input.
    pub fn linear_backward_into(&mut self, w: ParamIndex, x: Tensor, dy: Tensor, dx: Tensor, accumulate_dx: bool) {
        let (dw, accumulate_dw) = self.gradient(w);
        let w = self.weight(w);
        self.push(LinearBwd { dy, x, w, dx: Some(dx), accumulate_dx, dw: Some(dw), accumulate_dw, adapter: None });
    }
}
