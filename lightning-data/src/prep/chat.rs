//! From a chat to the sequences that are trained, cut into chunks by role.

use serde_json::Value;

use super::chat_template::{ChatTemplate, RenderOptions};
use crate::error::Result;
use crate::tokenizer::TextTokenizer;

/// A piece of the rendered text and who said it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Role: "system", "user", "assistant", "tool".
    pub role: String,
    /// Text.
    pub text: String,
}

/// One sequence of a chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatSequence {
    /// Messages that it covers, from the first.
    pub messages: usize,
    /// Its chunks; end to end they are the rendered text.
    pub chunks: Vec<Chunk>,
}

/// What became of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChatOutcome {
    /// Sequences to train.
    Sequences(Vec<ChatSequence>),
    /// No messages.
    NoMessages,
    /// Text that looks like a tool call in a chat that explains no tools.
    StrayToolCall,
    /// A row with reasoning of which nothing can be trained.
    Empty,
    /// Tool arguments that are no JSON, messages that do not render, or chunks that are no prefixes of the whole.
    Failed(String),
}

/// Which fields of a row hold what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatSettings {
    /// Field of the messages.
    pub messages_field: String,
    /// Field of the tools.
    pub tools_field: String,
    /// Keep only rows that name this in `used_in_field`.
    pub used_in_filter: Option<String>,
    /// Field of the uses.
    pub used_in_field: String,
}

impl Default for ChatSettings {
    fn default() -> ChatSettings {
        ChatSettings {
            messages_field: "messages".into(),
            tools_field: "tools".into(),
            used_in_filter: Some("nano_v3".into()),
            used_in_field: "used_in".into(),
        }
    }
}

/// Whether a row's uses hold `wanted`: as a member of a list, as the text itself, or between commas.
pub fn used_in(value: Option<&Value>, wanted: &str) -> bool {
    match value {
        Some(Value::Array(list)) => list.iter().any(|v| v.as_str() == Some(wanted)),
        Some(Value::String(text)) => text.split(',').any(|part| part.trim() == wanted),
        _ => false,
    }
}

fn text<'a>(message: &'a Value, key: &str) -> &'a str {
    message.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn role(message: &Value) -> &str {
    text(message, "role")
}

/// Whether a chat without explained tools contains a tool call. The tools column does not count as an explanation.
fn stray_tool_call(messages: &[Value]) -> bool {
    let any =
        |needle: &str, keys: &[&str]| messages.iter().any(|m| keys.iter().any(|key| text(m, key).contains(needle)));
    any("<tool_call>", &["content", "reasoning_content"]) && !any("# Tools", &["content"])
}

/// Tool arguments written as JSON text become objects.
fn parse_arguments(messages: &mut [Value]) -> std::result::Result<(), String> {
    for message in messages {
        let Some(calls) = message.get_mut("tool_calls").and_then(Value::as_array_mut) else {
            continue;
        };
        for call in calls {
            let holder = if call.get("function").is_some() { &mut call["function"] } else { call };
            let Some(arguments) = holder.get_mut("arguments") else {
                continue;
            };
            if let Some(json) = arguments.as_str() {
                *arguments = serde_json::from_str(json).map_err(|e| format!("tool arguments: {e}"))?;
            }
        }
    }
    Ok(())
}

/// Sequences of a chat. A row with reasoning gives one per user turn, because earlier reasoning is left out of the history
/// of later turns; a row without gives one.
pub fn chat_sequences(template: &ChatTemplate, messages: &Value, tools: Option<&Value>) -> ChatOutcome {
    let Some(messages) = messages.as_array().filter(|m| !m.is_empty()) else {
        return ChatOutcome::NoMessages;
    };
    if stray_tool_call(messages) {
        return ChatOutcome::StrayToolCall;
    }
    let mut messages = messages.clone();
    if let Err(e) = parse_arguments(&mut messages) {
        return ChatOutcome::Failed(e);
    }
    let tools = tools.filter(|t| t.as_array().is_some_and(|t| !t.is_empty()));
    let reasoning = messages.iter().any(|m| !text(m, "reasoning_content").is_empty());
    let mut sequences = Vec::new();
    if reasoning {
        let users: Vec<usize> = (0..messages.len()).filter(|&i| role(&messages[i]) == "user").collect();
        for (n, &user) in users.iter().enumerate() {
            let end = users.get(n + 1).copied().unwrap_or(messages.len());
            if end == user + 1 {
                continue; // nothing follows this user turn
            }
            match chunks(template, &messages[..end], tools, user, true) {
                Ok(chunks) => sequences.push(ChatSequence { messages: end, chunks }),
                Err(e) => return ChatOutcome::Failed(e),
            }
        }
        if sequences.is_empty() {
            return ChatOutcome::Empty;
        }
    } else {
        match chunks(template, &messages, tools, 0, false) {
            Ok(chunks) => sequences.push(ChatSequence { messages: messages.len(), chunks }),
            Err(e) => return ChatOutcome::Failed(e),
        }
    }
    ChatOutcome::Sequences(sequences)
}

/// Chunks of `messages`: the first ends with message `first`, then there is one per message, consecutive tool results
/// together. What a user or a tool says takes the beginning of the answer with it.
fn chunks(
    template: &ChatTemplate,
    messages: &[Value],
    tools: Option<&Value>,
    first: usize,
    reasoning: bool,
) -> std::result::Result<Vec<Chunk>, String> {
    let render = |messages: &[Value], options| template.render(messages, tools, options).map_err(|e| e.to_string());
    let full = render(messages, RenderOptions::default())?;
    let mut chunks = Vec::new();
    let mut done = 0;
    for at in first..messages.len() {
        let said_by = role(&messages[at]);
        let next = messages.get(at + 1);
        if said_by == "tool" && next.is_some_and(|m| role(m) == "tool") {
            continue;
        }
        let answer = next.filter(|m| role(m) == "assistant" && matches!(said_by, "user" | "tool"));
        let options = RenderOptions {
            add_generation_prompt: answer.is_some(),
            enable_thinking: reasoning && answer.is_some_and(|m| !text(m, "reasoning_content").trim().is_empty()),
            ..RenderOptions::default()
        };
        let so_far = render(&messages[..=at], options)?;
        let Some(new) = full.strip_prefix(so_far.as_str()).map(|_| &so_far) else {
            return Err(format!("the text up to message {at} is no prefix of the whole"));
        };
        let Some(piece) = new.get(done..) else {
            return Err(format!("message {at} makes the text shorter"));
        };
        chunks.push(Chunk { role: said_by.to_string(), text: piece.to_string() });
        done = so_far.len();
    }
    // The system block stands before the first message also when there is no system message.
    if let Some(head) = chunks.first_mut().filter(|c| c.role != "system" || first > 0) {
        const END: &str = "<|im_end|>\n";
        if let Some(end) = head.text.find(END).map(|i| i + END.len()).filter(|&end| end < head.text.len()) {
            let system = Chunk { role: "system".into(), text: head.text[..end].to_string() };
            head.text.drain(..end);
            chunks.insert(0, system);
        }
    }
    Ok(chunks)
}

/// Ids and masks of chunks. Each chunk is encoded alone, so that no token spans two; the assistant's are trained.
pub fn tokenize_chunks(tokenizer: &TextTokenizer, chunks: &[Chunk]) -> Result<(Vec<u32>, Vec<u8>)> {
    let (mut ids, mut mask) = (Vec::new(), Vec::new());
    for chunk in chunks {
        tokenizer.encode_into(&chunk.text, &mut ids)?;
        mask.resize(ids.len(), u8::from(chunk.role == "assistant"));
    }
    Ok((ids, mask))
}
