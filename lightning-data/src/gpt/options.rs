//! What changes the samples of a GPT dataset.

use std::fmt;

/// One of the three splits of a dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Split {
    /// Training.
    Train,
    /// Validation.
    Valid,
    /// Test.
    Test,
}

impl Split {
    /// All three, in order.
    pub const ALL: [Split; 3] = [Split::Train, Split::Valid, Split::Test];

    /// "train", "valid" or "test".
    pub fn name(self) -> &'static str {
        match self {
            Split::Train => "train",
            Split::Valid => "valid",
            Split::Test => "test",
        }
    }
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Settings of a GPT dataset. All of them are part of the cache key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GptOptions {
    /// Tokens per sample, S.
    pub sequence_length: u64,
    /// Seed of both shuffles.
    pub seed: u32,
    /// Read one token more than S, so that the last label is a real token (the default of the public stack).
    pub add_extra_token: bool,
    /// Leave out the last, partial validation sample (default).
    pub drop_last_partial_validation: bool,
    /// Count positions from 0 again after each end of document.
    pub reset_position_ids: bool,
    /// Hide earlier documents from attention. The state-space layers still see them; see `inter_document_masking`.
    pub reset_attention_mask: bool,
    /// No loss where the input token is an end of document.
    pub eod_mask_loss: bool,
    /// Treat each document of a window as a sequence of its own, for attention, convolution and state.
    pub inter_document_masking: bool,
    /// Id of the end of a document.
    pub eod: i32,
    /// Id of padding; `None` when the tokenizer has none or gives it another meaning too, so that real ends stay trained.
    pub pad: Option<i32>,
}

impl GptOptions {
    /// The options of every public pretraining recipe.
    pub fn new(sequence_length: u64, seed: u32, eod: i32) -> GptOptions {
        GptOptions {
            sequence_length,
            seed,
            add_extra_token: true,
            drop_last_partial_validation: true,
            reset_position_ids: false,
            reset_attention_mask: false,
            eod_mask_loss: false,
            inter_document_masking: false,
            eod,
            pad: None,
        }
    }

    /// Sets the pad id by the rule of the public stack: a pad id that means something else too is no pad id.
    pub fn with_pad(mut self, pad: Option<i32>, other_special_ids: &[i32]) -> GptOptions {
        self.pad = pad.filter(|p| *p != self.eod && !other_special_ids.contains(p));
        self
    }

    /// 1 when an extra token is read, else 0.
    pub(crate) fn extra(&self) -> u64 {
        u64::from(self.add_extra_token)
    }
}
