//! The stand-in as its clients see it, over real sockets.

#[cfg(test)]
mod client;
#[cfg(test)]
mod control;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod journal;
#[cfg(test)]
mod openai;
