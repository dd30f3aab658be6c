//! Help texts.

use super::exit::EXIT_CODES;
use crate::config::run::RunConfig;

/// How overrides are written.
pub const GRAMMAR: &str = "\
Overrides:
  section.key=value, anywhere on the line; they win over flags, flags win over --config, --config over the recipe.
    null  true  false             no value, booleans
    12  -3  0.5  1e-4             numbers; a whole number where one is needed
    cosine  \"a, b\"  'c'           strings; quotes where the text is null, true, false or begins with a bracket or quote
    [moe, core_attn]              lists, blanks allowed
    {revision = main, n: 1}       maps
  The shell takes its own share of quotes: write 'dataset.blend=[[\"a\", \"b\"], [0.3, 0.7]]'.
  --list-settings names every setting; --dry-run shows every value and where it comes from.
";

/// A verb in the top-level help.
#[derive(Debug, Clone, Copy)]
pub struct VerbHelp {
    /// Words on the command line.
    pub words: &'static str,
    /// One line.
    pub about: &'static str,
}

/// The top-level help.
pub fn top(verbs: &[VerbHelp]) -> String {
    let mut text = String::from(
        "Train hybrid Mamba-2 / attention / mixture-of-experts language models.\n\n\
         Usage: lightning-train VERB [--flags] [section.key=value ...]\n\nVerbs:\n",
    );
    for verb in verbs {
        text.push_str(&format!("  {:16} {}\n", verb.words, verb.about));
    }
    text.push_str(
        "\nStart here (learns real text in about two minutes):\n  lightning-train train --recipe demo_pretrain_config\n\n\
         `lightning-train VERB --help` explains a verb.\n\n",
    );
    text.push_str(GRAMMAR);
    text.push('\n');
    text.push_str(EXIT_CODES);
    text
}

/// What stands behind argh's help of `train`.
pub fn train_tail() -> String {
    format!(
        "\nFlags may be written with `_` or `-`, and as --flag value or --flag=value. Flags of the public launcher that\n\
         concern a scheduler or a container (--nodes, --account, --container-image, ...) are accepted and recorded.\n\n\
         {GRAMMAR}\n{EXIT_CODES}"
    )
}

/// Every setting with its meaning, what it takes and its default.
pub fn settings() -> String {
    let defaults = RunConfig::default();
    let mut text = String::new();
    for (section, fields) in RunConfig::sections() {
        text.push_str(&format!("[{section}]\n"));
        for field in fields {
            let default = defaults.get(&format!("{section}.{}", field.name)).map_or(String::new(), |v| v.to_string());
            text.push_str(&format!("  {section}.{} = {default}\n", field.name));
            text.push_str(&format!("     {}\n     takes {}\n", field.doc.trim(), (field.expected)()));
        }
    }
    text
}
