//! How records read as file content.
//!
//! Rendering is a pure function of a record and a format; measuring keeps where each rendered block begins, so that a
//! read in the middle starts near by. Opens no files and knows no inodes.
//!
//! | module | what |
//! |---|---|
//! | [`format`] | the formats, and the renderer that all of them go through |
//! | [`text`], [`jsonl`], [`tsv`], [`record_json`], [`template`] | one format each; the last for all that users write |
//! | [`encoding`], `json_string` | how keys and values are written; what is escaped in JSON |
//! | [`lines`] | what is written to the append files, read as records |
//! | [`layout`] | file byte <-> block <-> offset: what measuring keeps |
//! | [`env`], [`counts`] | what measuring and rendering need besides a segment; what they came to |
//! | [`run`], `frontier` | the blocks of one segment, measured as far as somebody needed |
//! | [`summary`] | what measuring counts besides blocks |
//! | [`reading`] | rendering a run's blocks, and walking over their records |
//! | [`pieces`], [`buffers`], [`blocks`], `kept` | what a read gives; its memory; rendered blocks; which of them are kept, and who waits for room |
//! | [`ahead`] | blocks rendered before they are asked for |
//! | [`selection`] | a range of records as one file: size, and reading at any position |
//! | [`filtered`], [`passing`] | the records that pass a filter as one file; a walk over them |
//! | [`following`], `follower` | records as they come, for readers that wait |
//! | [`merged`], `rendered` | records of several partitions, merged by time |
//! | [`times`], `epochs` | records by time, ends of leader epochs, as a broker answers for them |
//! | [`partition_view`], `counting`, `shown` | one partition: its runs, records by offset, counting from any place; segments as a whole |
//! | [`keys`], [`key_history`], [`key_list`] | the latest record of a key; all of them as one file; the keys that have a value |
//! | [`permits`] | memory for decoding, of which large batches wait for their part |
//! | [`problems`] | damage that was met |
//! | [`info`], [`configs`] | the summary of a partition; its topic's configs |
//! | [`overview`] | a line for each partition |
//! | [`manifest`] | the summary of each file of a source |

pub mod ahead;
pub mod blocks;
pub mod buffers;
pub mod configs;
mod counting;
pub mod counts;
pub mod dump;
pub mod encoding;
pub mod env;
mod epochs;
pub mod filtered;
mod follower;
pub mod following;
pub mod format;
mod frontier;
pub mod info;
mod json_string;
pub mod jsonl;
mod kept;
pub mod key_history;
pub mod key_list;
pub mod keys;
pub mod layout;
pub mod lines;
pub mod manifest;
pub mod merged;
pub mod overview;
pub mod partition_view;
pub mod passing;
pub mod permits;
pub mod pieces;
pub mod problems;
pub mod reading;
pub mod record_json;
mod rendered;
pub mod run;
pub mod selection;
pub mod shared;
mod shown;
pub mod summary;
pub mod suspects;
pub mod template;
pub mod text;
pub mod times;
pub mod tsv;
