//! `data tokenizer`: trains a byte-level BPE tokenizer.

use std::path::Path;
use std::time::Instant;

use lightning_data::tokenizer::{TrainingSettings, train_on_rows};
use serde_json::json;

use super::args::TokenizerArgs;
use super::{Line, bad_rows, note, print_value, usage};
use crate::cli::{Failure, Process};

/// Trains and saves.
pub(super) fn train(args: TokenizerArgs, line: Line, process: &mut Process<'_>) -> Result<(), Failure> {
    line.no_overrides()?;
    let inputs = line.inputs(args.input);
    if inputs.is_empty() {
        return Err(usage("what to train on is missing; name files or folders"));
    }
    let mut settings = TrainingSettings::new(args.vocab_size);
    settings.eos = args.eos.unwrap_or(settings.eos);
    settings.special_tokens = match &args.special_tokens {
        Some(list) => list.split(',').map(str::to_string).collect(),
        None => vec![settings.eos.clone()],
    };
    settings.min_frequency = args.min_frequency.unwrap_or(settings.min_frequency);
    let start = Instant::now();
    let policy = bad_rows(args.on_bad_row.as_deref())?;
    let (trained, read) = train_on_rows(&inputs, args.text_field.as_deref().unwrap_or("text"), policy, &settings)?;
    let folder = Path::new(&args.output);
    trained.save(folder)?;
    let vocab_size = trained.into_tokenizer()?.vocab_size() as usize;
    if vocab_size < args.vocab_size {
        note(
            process,
            &format!(
                "note: the text has pairs for {vocab_size} entries only, not {}; give more text to get more",
                args.vocab_size
            ),
        );
    }
    let value = json!({
        "directory": folder, "vocab_size": vocab_size, "texts": read.texts, "characters": read.characters,
        "bad_rows": read.bad_rows, "seconds": (start.elapsed().as_secs_f64() * 1000.0).round() / 1000.0,
    });
    print_value(process, &value, args.json)
}
