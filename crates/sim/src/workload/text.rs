//! The text form that all workloads share: `name=number,…`.

/// Reads `text` item by item. `set` is told name and number and answers whether it knows the name; `names` says what there
/// is.
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

/// Complains if `value` is below `least`.
///
/// # Errors
/// One line about it.
pub(super) fn at_least(workload: &str, name: &str, value: u32, least: u32) -> Result<(), String> {
    if value < least {
        return Err(format!(
            "{workload} {name}={value}: expected a whole number from {least} on"
        ));
    }
    Ok(())
}
