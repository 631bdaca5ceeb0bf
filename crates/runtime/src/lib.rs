//! What makes a library a process: settings, logs, health, metrics, signals, drain.
//!
//! Reading order: [`settings`], then [`frame`] with [`Services`] and [`Health`], then [`serve`],
//! on which both the API and the ops port stand; [`keys`],
//! [`credentials`] and [`reread`] for files that change while a process runs; [`traces`] for what a collector is told.

pub mod credentials;
pub mod declare;
mod files;
pub mod frame;
mod health;
pub mod keys;
mod logs;
mod ops;
mod redis;
pub mod reread;
pub mod serve;
mod services;
pub mod settings;
mod signals;
pub mod traces;
pub mod unread;

pub use frame::{Process, VERSION, main};
pub use health::{Health, HealthPart};
pub use holdfast_core::Chain;
pub use logs::{Seldom, flush as flush_logs};
pub use services::{Failure, Services, Stop};
pub use settings::{Environment, Problems, Settings};
pub use traces::Traces;

/// Any error, once nobody decides by its type any more.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
