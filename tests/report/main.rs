//! What runs show of themselves, judged from outside: files, pages and terminal blocks of made-up runs.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod directory;
mod pages;
mod paper;
mod paper_sample;
mod sample;
mod seeds;
mod tensorboard;
mod terminal;
