//! What a server answers, and how it is shown to a person.

/// What a server answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// No value.
    Nil,
    /// An integer.
    Number(i64),
    /// A string.
    Bytes(Vec<u8>),
    /// A word such as `OK`.
    Status(String),
    /// A refusal.
    Error(String),
    /// An array, or a map as its keys and values in turn.
    Array(Vec<Value>),
    /// Told without being asked.
    Push(Vec<Value>),
}

/// Bytes for a person's eyes: a long run of one byte is told once.
pub fn show(bytes: &[u8]) -> String {
    let runs = bytes.chunk_by(|one, next| one == next);
    let run = |run: &[u8]| match run.len() {
        0..5 => run.escape_ascii().to_string(),
        count => format!("{}*{count} ", run[..1].escape_ascii()),
    };
    runs.map(run).collect()
}

impl Value {
    /// For a person's eyes.
    pub fn show(&self) -> String {
        match self {
            Self::Bytes(bytes) => show(bytes),
            Self::Array(items) => {
                format!("[{}]", items.iter().map(Self::show).collect::<Vec<_>>().join(", "))
            }
            other => format!("{other:?}"),
        }
    }
}
