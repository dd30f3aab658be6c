//! From a window of the token stream to tokens, labels and masks.

use super::GptOptions;

/// Which sample a row shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleSlot {
    /// A sample of the dataset, by its position in the order.
    Real(u64),
    /// Fills up a batch: shows some real sample, with a loss mask of zeros and every token marked as padding.
    Filler,
}

/// One row of a batch to be filled; all slices have `sequence_length` elements.
pub struct SampleBuffers<'a> {
    /// Input ids.
    pub tokens: &'a mut [i32],
    /// Ids to predict.
    pub labels: &'a mut [i32],
    /// 1 where the label counts, else 0.
    pub loss_mask: &'a mut [f32],
    /// True where the token is padding.
    pub padding_mask: &'a mut [bool],
    /// Positions, when `reset_position_ids` is on.
    pub positions: Option<&'a mut [i32]>,
    /// Number of the document inside the row, when `reset_attention_mask` is on: attention stays inside equal numbers.
    pub segments: Option<&'a mut [i32]>,
    /// Ends of the documents inside the row, ascending, the last one `sequence_length`. Appended, not cleared.
    pub document_ends: &'a mut Vec<i32>,
}

/// Finishes a row whose `tokens` hold the first S ids of the window and whose last label holds the extra id if there is
/// one. `valid` counts the real ids of the window, the extra one included; everything behind is padding by position.
pub(super) fn finish_row(options: &GptOptions, row: &mut SampleBuffers<'_>, valid: usize) {
    let s = row.tokens.len();
    if s == 0 {
        return;
    }
    row.labels[..s - 1].copy_from_slice(&row.tokens[1..]);
    if let Some(positions) = row.positions.as_deref_mut() {
        let mut start = 0;
        for (i, &token) in row.tokens.iter().enumerate() {
            positions[i] = (i - start) as i32;
            if i < valid && token == options.eod {
                start = i + 1;
            }
        }
    }
    if let Some(segments) = row.segments.as_deref_mut() {
        let mut segment = 0;
        for (i, &token) in row.tokens.iter().enumerate() {
            segments[i] = segment;
            segment += i32::from(i < valid && token == options.eod);
        }
    }
    if options.inter_document_masking {
        // Padding belongs to the last document: no boundary after the last real token unless it fills the row.
        let real = valid.min(s);
        let ends = row.tokens[..real].iter().enumerate().filter(|&(i, &t)| t == options.eod && i + 1 < real);
        row.document_ends.extend(ends.map(|(i, _)| i as i32 + 1));
    }
    row.document_ends.push(s as i32);
    // The mask is made afresh for every row. (The reference reuses the first sample's mask after zeroing it.)
    for i in 0..s {
        let counts = i + 1 < valid && Some(row.labels[i]) != options.pad;
        let hidden = options.eod_mask_loss && i < valid && row.tokens[i] == options.eod;
        row.loss_mask[i] = if counts && !hidden { 1.0 } else { 0.0 };
        row.padding_mask[i] = i >= valid;
        if !counts {
            row.labels[i] = 0;
        }
    }
    for (i, token) in row.tokens.iter_mut().enumerate() {
        if i >= valid || Some(*token) == options.pad {
            *token = 0;
        }
    }
}
