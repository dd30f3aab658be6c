//! Examples of a prompt and a completion, without a chat template (the OpenMathInstruct-2 runs).

use crate::error::{DataError, Result};
use crate::rng::Pcg64;
use crate::tokenizer::TextTokenizer;

/// A tokenised example with one mask entry per token: 1 where the token itself is trained. Not yet shifted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Example {
    /// Tokens, the final EOS included.
    pub input_ids: Vec<i32>,
    /// 1 on tokens to be trained.
    pub loss_mask: Vec<u8>,
    /// Tokens of the prompt, after cutting.
    pub prompt_length: usize,
}

/// Added tokens that are never trained, wherever they stand: markers of chats and media of several model families.
const NEVER_TRAINED: [&str; 21] = [
    "<|im_start|>",
    "<|image_pad|>",
    "<|video_pad|>",
    "<|AUDIO|>",
    "<|audio_bos|>",
    "<|audio_eos|>",
    "<image>",
    "<pad>",
    "<|begin_of_text|>",
    "<|finetune_right_pad_id|>",
    "<|step_id|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|python_tag|>",
    "<|image|>",
    "<image_soft_token>",
    "<audio_soft_token>",
    "<start_of_audio>",
    "<start_of_image>",
    "<end_of_audio>",
    "<end_of_image>",
];

/// Turns prompts and completions into examples.
pub struct PromptCompletion {
    tokenizer: TextTokenizer,
    eos: i32,
    space_sensitive: bool,
    never_trained: Vec<u32>,
    max_tokens: usize,
}

impl PromptCompletion {
    /// Examples of at most `max_tokens` stored tokens: one more than a pack runs when lengths are padded to a multiple, else
    /// as many.
    ///
    /// # Errors
    /// A tokenizer without EOS, fewer than 2 tokens.
    pub fn new(tokenizer: TextTokenizer, max_tokens: usize) -> Result<PromptCompletion> {
        if max_tokens < 2 {
            return Err(DataError::Setting {
                name: "seq_length",
                expected: "at least 2 tokens".into(),
                found: max_tokens.to_string(),
                hint: "raise it",
            });
        }
        let eos = tokenizer.eos()? as i32;
        let space_sensitive = tokenizer.is_space_sensitive()?;
        let never_trained = tokenizer
            .special_ids()
            .iter()
            .copied()
            .filter(|&id| {
                tokenizer.id_token(id).is_some_and(|t| {
                    NEVER_TRAINED.contains(&t.as_str()) || (t.starts_with("<|vision_") && t.ends_with("|>"))
                })
            })
            .collect();
        Ok(PromptCompletion { tokenizer, eos, space_sensitive, never_trained, max_tokens })
    }

    /// The tokenizer's EOS.
    pub fn eos(&self) -> i32 {
        self.eos
    }

    /// One example. Both texts lose blanks (only blanks) at their ends; the completion is encoded with one blank before it
    /// when the tokenizer cares. Too long: the prompt is cut from the right, then the completion; EOS stays.
    ///
    /// # Errors
    /// Fewer than 2 tokens; a completion of which no token is trained. `row` is named.
    pub fn example(&self, prompt: &str, completion: &str, row: u64) -> Result<Example> {
        let (prompt, completion) = (prompt.trim_matches(' '), completion.trim_matches(' '));
        let mut ids = Vec::new();
        self.tokenizer.encode_into(prompt, &mut ids)?;
        let mut answer = Vec::new();
        if self.space_sensitive {
            self.tokenizer.encode_into(&format!(" {completion}"), &mut answer)?;
        } else {
            self.tokenizer.encode_into(completion, &mut answer)?;
        }
        let overflow = (ids.len() + answer.len() + 1).saturating_sub(self.max_tokens);
        ids.truncate(ids.len().saturating_sub(overflow));
        answer.truncate(self.max_tokens - 1 - ids.len());
        let prompt_length = ids.len();
        ids.extend(answer);
        let mut input_ids: Vec<i32> = ids.iter().map(|&id| id as i32).collect();
        input_ids.push(self.eos);
        let trained = |i: usize, id: i32| i >= prompt_length && !self.never_trained.contains(&(id as u32));
        let loss_mask: Vec<u8> = input_ids.iter().enumerate().map(|(i, &id)| u8::from(trained(i, id))).collect();
        if input_ids.len() < 2 || (!completion.is_empty() && !loss_mask.contains(&1)) {
            return Err(DataError::Invalid {
                path: self.tokenizer.path().to_path_buf(),
                rule: "an example has at least 2 tokens, one of them trained",
                entry: Some(row),
                expected: "a prompt and a completion with text".into(),
                found: format!("{} tokens, {} trained", input_ids.len(), loss_mask.iter().filter(|&&m| m == 1).count()),
                hint: "remove the row",
            });
        }
        Ok(Example { input_ids, loss_mask, prompt_length })
    }
}

/// Rows of the training and the validation part, both in shuffled order: what `train_test_split(test_size, seed)` of the
/// Hugging Face library gives. `share` is the validation part.
pub fn validation_split(rows: usize, share: f64, seed: u64) -> (Vec<u64>, Vec<u64>) {
    let mut order = Pcg64::from_seed(seed).permutation(rows);
    let held_out = ((share * rows as f64).ceil() as usize).min(rows);
    let training = order.split_off(held_out);
    (training, order)
}
