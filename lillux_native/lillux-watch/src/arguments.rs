//! The command line, read.

use std::path::PathBuf;
use std::time::Duration;

use lexopt::{Arg, Parser};

pub const USAGE: &str = "\
usage: lillux-watch --db FILE --thread-id ID [--timeout SECONDS=300 | --no-timeout] [--exit-code]
";
const DEFAULT: Duration = Duration::from_secs(300);
/// Clocks of the system overflow on longer waits.
const LONGEST_S: f64 = 1e9;

/// What is asked for.
#[derive(Debug)]
pub enum Request {
    Help,
    Watch(Watch),
}

#[derive(Debug)]
pub struct Watch {
    pub db: PathBuf,
    pub thread_id: String,
    /// `None` for no limit.
    pub timeout: Option<Duration>,
    pub exit_code: bool,
}

/// The request of a command line, or what is wrong with it.
pub fn read(mut parser: Parser) -> Result<Request, String> {
    let (mut db, mut thread_id) = (None, None);
    let mut timeout = None;
    let (mut no_timeout, mut exit_code) = (false, false);
    while let Some(argument) = parser.next().map_err(|error| error.to_string())? {
        let flag = match argument {
            Arg::Short('h') | Arg::Long("help") => return Ok(Request::Help),
            Arg::Long("exit-code") => {
                exit_code = true;
                continue;
            }
            Arg::Long("no-timeout") => {
                no_timeout = true;
                continue;
            }
            Arg::Long(name @ ("db" | "thread-id" | "timeout")) => name.to_owned(),
            Arg::Long(name) => return Err(format!("unknown argument --{name}")),
            Arg::Short(letter) => return Err(format!("unknown argument -{letter}")),
            Arg::Value(value) => {
                return Err(format!("unknown argument {}", value.to_string_lossy()));
            }
        };
        let value = parser.value().map_err(|_| missing(&flag))?;
        match flag.as_str() {
            "db" => db = Some(PathBuf::from(value)),
            "thread-id" => thread_id = Some(value.to_string_lossy().into_owned()),
            _ => timeout = Some(seconds(&value.to_string_lossy())?),
        }
    }
    if no_timeout && timeout.is_some() {
        return Err("--no-timeout: expected no --timeout beside it".into());
    }
    Ok(Request::Watch(Watch {
        db: db.ok_or_else(|| missing("db"))?,
        thread_id: thread_id.ok_or_else(|| missing("thread-id"))?,
        timeout: (!no_timeout).then(|| timeout.unwrap_or(DEFAULT)),
        exit_code,
    }))
}

fn missing(flag: &str) -> String {
    format!("--{flag}: expected a value, got nothing")
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => {
            Ok(Duration::from_secs_f64(number.min(LONGEST_S)))
        }
        _ => Err(format!("--timeout: expected seconds, 0 or more, got {text}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_the_database_and_the_thread_are_needed() {
        let wrong = read(Parser::from_args(["--db", "x"])).unwrap_err();
        assert_eq!(wrong, "--thread-id: expected a value, got nothing");
    }

    #[test]
    fn no_limit_is_a_word_of_its_own_and_0_looks_once() {
        for (word, limit) in [("--no-timeout", None), ("--timeout=0", Some(Duration::ZERO))] {
            let read = read(Parser::from_args(["--db", "x", "--thread-id", "t", word]));
            let Ok(Request::Watch(watch)) = read else {
                panic!("expected a request");
            };
            assert_eq!(watch.timeout, limit);
        }
    }

    #[test]
    fn a_number_of_seconds_can_be_waited_for() {
        for wrong in ["", "x", "-1", "nan", "inf"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
    }
}
