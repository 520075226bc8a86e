//! A table of text: the first column to the left, figures to the right, as wide as their widest cell.

use std::fmt;

/// Rows of cells under a header.
#[derive(Clone, Debug)]
pub struct Table {
    header: Vec<String>,
    rows: Vec<Row>,
    left_columns: usize,
}

#[derive(Clone, Debug)]
enum Row {
    Cells(Vec<String>),
    /// The first cells, and a text in place of the others.
    Remark(Vec<String>, String),
}

impl Table {
    /// A table whose first `left_columns` columns are names.
    #[must_use]
    pub fn new(header: &[&str], left_columns: usize) -> Self {
        Self {
            header: header.iter().map(|&name| name.to_owned()).collect(),
            rows: Vec::new(),
            left_columns,
        }
    }

    /// Adds a row with as many cells as the header has.
    pub fn push(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.header.len(), "one cell a column");
        self.rows.push(Row::Cells(cells));
    }

    /// Adds a row that has names, but a remark in place of figures.
    pub fn push_remark(&mut self, names: Vec<String>, remark: String) {
        self.rows.push(Row::Remark(names, remark));
    }

    /// The names of the columns.
    #[must_use]
    pub fn header(&self) -> &[String] {
        &self.header
    }

    /// How many columns, of the first, are names.
    #[must_use]
    pub fn left_columns(&self) -> usize {
        self.left_columns
    }

    /// The cells of each row, and the remark that stands in place of those that are missing.
    pub fn rows(&self) -> impl Iterator<Item = (&[String], Option<&str>)> {
        self.rows.iter().map(|row| match row {
            Row::Cells(cells) => (&cells[..], None),
            Row::Remark(cells, remark) => (&cells[..], Some(remark.as_str())),
        })
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> = self.header.iter().map(|cell| cell.chars().count()).collect();
        for row in &self.rows {
            let (Row::Cells(cells) | Row::Remark(cells, _)) = row;
            for (width, cell) in widths.iter_mut().zip(cells) {
                *width = (*width).max(cell.chars().count());
            }
        }
        widths
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, cells: &[String], widths: &[usize], remark: &str) -> fmt::Result {
        let mut line = String::new();
        for (column, (cell, &width)) in cells.iter().zip(widths).enumerate() {
            line.push_str("  ");
            line.push_str(&if column < self.left_columns {
                format!("{cell:<width$}")
            } else {
                format!("{cell:>width$}")
            });
        }
        if !remark.is_empty() {
            line.push_str("  ");
            line.push_str(remark);
        }
        writeln!(f, "{}", line.trim_end())
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths = self.widths();
        self.write(f, &self.header, &widths, "")?;
        for row in &self.rows {
            match row {
                Row::Cells(cells) => self.write(f, cells, &widths, "")?,
                Row::Remark(names, remark) => self.write(f, names, &widths, remark)?,
            }
        }
        Ok(())
    }
}

/// A figure with three significant digits and thousands separated: `1,234`, `56.7`, `0.891`.
#[must_use]
pub fn figure(value: f64) -> String {
    let size = value.abs();
    if size >= 99.95 {
        thousands(&format!("{value:.0}"))
    } else if size >= 9.995 {
        format!("{value:.1}")
    } else if size >= 0.9995 {
        format!("{value:.2}")
    } else {
        format!("{value:.3}")
    }
}

/// Separates the thousands of a whole number.
#[must_use]
pub fn thousands(digits: &str) -> String {
    let mut separated = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            separated.push(',');
        }
        separated.push(digit);
    }
    separated
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&["runtime", "median"], 1);
        table.push(vec!["tokio".to_owned(), "1,234".to_owned()]);
        table.push_remark(vec!["go".to_owned()], "go is not installed".to_owned());
        assert_eq!(
            table.to_string(),
            "  runtime  median\n  tokio     1,234\n  go       go is not installed\n"
        );
    }

    #[test]
    fn figures_keep_three_digits() {
        for (value, text) in [
            (0.0, "0.000"),
            (0.0421, "0.042"),
            (1.0, "1.00"),
            (9.999, "10.0"),
            (99.99, "100"),
            (1234.4, "1,234"),
            (1_234_567.0, "1,234,567"),
        ] {
            assert_eq!(figure(value), text);
        }
    }
}
