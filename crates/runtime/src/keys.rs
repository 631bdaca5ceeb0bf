//! The callers' keys: what one looks like, what it may do, and the file that holds their hashes.

mod file;
mod key;
mod line;
mod scope;

pub use file::{KeyFile, KeyFileError, LineFault, SETTING, open};
pub use key::{Key, KeyHash};
pub use line::KeyLine;
pub use scope::{Scope, Scopes, UnknownScope};
