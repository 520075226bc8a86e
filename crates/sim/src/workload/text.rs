//! The text form that all workloads share: `name=number,…`.

use std::ops::RangeInclusive;

/// Reads `text` item by item. `set` is told name and number and answers whether it knows the name; `names` says what
/// there is.
///
/// # Errors
/// One line about the first item that is wrong.
pub(super) fn read(
    workload: &str,
    text: &str,
    names: &str,
    mut set: impl FnMut(&str, u32) -> bool,
) -> Result<(), String> {
    for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        let (name, value) = item
            .split_once('=')
            .ok_or_else(|| format!("{workload} `{item}`: expected name=value"))?;
        let number = value
            .parse()
            .map_err(|_| format!("{workload} {name}={value}: expected a whole number"))?;
        if !set(name, number) {
            return Err(format!("{workload} `{name}`: expected {names}"));
        }
    }
    Ok(())
}

/// Tasks that the text of a workload may ask for, at most.
pub(super) const TASKS_MAX: u32 = 1 << 20;

/// Complains if `value` is not in `range`.
///
/// # Errors
/// One line about it.
pub(super) fn within(workload: &str, name: &str, value: u32, range: RangeInclusive<u32>) -> Result<(), String> {
    if range.contains(&value) {
        return Ok(());
    }
    let (least, most) = range.into_inner();
    Err(match most {
        u32::MAX => format!("{workload} {name}={value}: expected a whole number from {least} on"),
        _ => format!("{workload} {name}={value}: expected a whole number from {least} to {most}"),
    })
}
