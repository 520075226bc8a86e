//! What stands in the parentheses of the attribute.

use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{Error, Expr, ExprLit, ExprPath, Ident, Lit, LitInt, LitStr, Path, Result, Token};

/// What is listed when an argument isn't known.
const KNOWN: &str =
    "`worker_threads = N`, `topology = \"...\"`, `start_paused = true`, `seed = N`, `thread` or `crate = path`";

/// The arguments of one attribute; what is `None` was not given.
#[derive(Default)]
pub(crate) struct Arguments {
    /// Number of workers, at least 1.
    pub(crate) worker_threads: Option<usize>,
    /// A synthetic machine. Read when the program starts, by the parser of the topology crate.
    pub(crate) topology: Option<LitStr>,
    /// Whether the clock is paused from the start.
    pub(crate) start_paused: Option<bool>,
    /// What decides the choices that are made by chance.
    pub(crate) seed: Option<u64>,
    /// Whether a plain function runs on a user-level thread.
    pub(crate) thread: Option<Ident>,
    /// Where the runtime's crate is to be found.
    pub(crate) home: Option<Path>,
}

impl Parse for Arguments {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut arguments = Arguments::default();
        while !input.is_empty() {
            let place = input.span();
            arguments.read_one(input)?;
            arguments.fit_together().map_err(|message| Error::new(place, message))?;
            if input.is_empty() {
                break;
            }
            input.parse::<Token![,]>()?;
        }
        Ok(arguments)
    }
}

impl Arguments {
    /// What they can be for.
    pub(crate) const fn kind(&self) -> &'static str {
        match self.thread {
            Some(_) => "a plain `fn`",
            None => "an `async fn`",
        }
    }

    /// Refuses what no runtime can be; what stands in the topology is found out when it is built.
    fn fit_together(&self) -> std::result::Result<(), String> {
        match (self.start_paused, self.worker_threads) {
            (Some(true), Some(workers @ 2..)) => Err(format!(
                "the clock of a runtime can be paused if it has 1 worker, not {workers}"
            )),
            _ => Ok(()),
        }
    }

    /// Reads one `name = value`, or one name that stands alone.
    fn read_one(&mut self, input: ParseStream<'_>) -> Result<()> {
        if !input.peek(Ident::peek_any) {
            return Err(input.error(format!("expected {KNOWN}")));
        }
        let name = input.call(Ident::parse_any)?;
        match name.to_string().as_str() {
            "worker_threads" => {
                let value = read_value(input, &name, "a number, as in `worker_threads = 4`")?;
                store(&mut self.worker_threads, &name, worker_threads(&value)?)
            }
            "topology" => {
                let value = read_value(input, &name, "a string, as in `topology = \"node:1 llc:2 core:4\"`")?;
                store(&mut self.topology, &name, topology(&value)?)
            }
            "start_paused" => {
                let value = read_value(input, &name, "`true` or `false`")?;
                store(&mut self.start_paused, &name, start_paused(&value)?)
            }
            "seed" => {
                let value = read_value(input, &name, "a number, as in `seed = 7`")?;
                store(&mut self.seed, &name, seed(&value)?)
            }
            "thread" if input.peek(Token![=]) => Err(input.error("`thread` has no value")),
            "thread" => store(&mut self.thread, &name.clone(), name),
            "crate" => {
                let value = read_value(input, &name, "a path, as in `crate = framework::quadrille`")?;
                store(&mut self.home, &name, home(&value)?)
            }
            "flavor" => Err(Error::new(
                name.span(),
                "there are no flavors: `worker_threads = 1` is the small runtime",
            )),
            unknown => Err(Error::new(
                name.span(),
                format!("unknown argument `{unknown}`, expected {KNOWN}"),
            )),
        }
    }
}

/// Reads `= value`.
fn read_value(input: ParseStream<'_>, name: &Ident, expected: &str) -> Result<Expr> {
    if !input.peek(Token![=]) {
        return Err(Error::new(name.span(), format!("`{name}` needs {expected}")));
    }
    input.parse::<Token![=]>()?;
    input.parse()
}

/// Keeps `value`, unless the argument was given before.
fn store<T>(place: &mut Option<T>, name: &Ident, value: T) -> Result<()> {
    if place.is_some() {
        return Err(Error::new(name.span(), format!("`{name}` is given twice")));
    }
    *place = Some(value);
    Ok(())
}

/// A positive integer literal.
fn worker_threads(value: &Expr) -> Result<usize> {
    const EXPECTED: &str = "`worker_threads` must be an integer literal from 1 on";
    let number = match literal(value) {
        Some(Lit::Int(number)) if matches!(number.suffix(), "" | "usize") => number,
        _ => return Err(Error::new(value.span(), EXPECTED)),
    };
    match LitInt::base10_parse::<usize>(number) {
        Ok(0) => Err(Error::new(value.span(), format!("{EXPECTED}, found `0`"))),
        Ok(number) => Ok(number),
        Err(reason) => Err(Error::new(value.span(), format!("{EXPECTED}: {reason}"))),
    }
}

/// An integer literal of 64 bits.
fn seed(value: &Expr) -> Result<u64> {
    const EXPECTED: &str = "`seed` must be an integer literal from 0 to 2^64 - 1";
    match literal(value) {
        Some(Lit::Int(number)) if matches!(number.suffix(), "" | "u64") => number
            .base10_parse()
            .map_err(|reason| Error::new(value.span(), format!("{EXPECTED}: {reason}"))),
        _ => Err(Error::new(value.span(), EXPECTED)),
    }
}

/// A string literal that isn't blank.
fn topology(value: &Expr) -> Result<LitStr> {
    const EXPECTED: &str = "`topology` must be a string literal such as \"node:1 llc:2 core:4\"";
    match literal(value) {
        Some(Lit::Str(text)) if !text.value().trim().is_empty() => Ok(text.clone()),
        Some(Lit::Str(_)) => Err(Error::new(value.span(), format!("{EXPECTED}, found an empty one"))),
        _ => Err(Error::new(value.span(), EXPECTED)),
    }
}

/// A boolean literal.
fn start_paused(value: &Expr) -> Result<bool> {
    match literal(value) {
        Some(Lit::Bool(paused)) => Ok(paused.value),
        _ => Err(Error::new(value.span(), "`start_paused` must be `true` or `false`")),
    }
}

/// A path, in quotes or without.
fn home(value: &Expr) -> Result<Path> {
    const EXPECTED: &str = "`crate` must be a path such as framework::quadrille";
    if let Some(Lit::Str(text)) = literal(value) {
        return text
            .parse_with(Path::parse_mod_style)
            .map_err(|reason| Error::new(text.span(), format!("{EXPECTED}: {reason}")));
    }
    match value {
        Expr::Path(ExprPath { qself: None, path, .. }) if path.segments.iter().all(|part| part.arguments.is_none()) => {
            Ok(path.clone())
        }
        Expr::Group(group) => home(&group.expr),
        _ => Err(Error::new(value.span(), EXPECTED)),
    }
}

/// The literal that `value` consists of.
fn literal(value: &Expr) -> Option<&Lit> {
    match value {
        Expr::Lit(ExprLit { lit, .. }) => Some(lit),
        // A literal that went through a macro_rules fragment comes in an invisible group.
        Expr::Group(group) => literal(&group.expr),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the text between the parentheses means: the arguments, or the message.
    fn read(text: &str) -> std::result::Result<(Option<usize>, Option<String>), String> {
        let tokens = text.parse().expect("the test's text is made of tokens");
        match syn::parse2::<Arguments>(tokens) {
            Ok(arguments) => Ok((arguments.worker_threads, arguments.topology.map(|text| text.value()))),
            Err(error) => Err(error.to_string()),
        }
    }

    /// The message for a wrong text.
    fn message(text: &str) -> String {
        read(text).expect_err("the arguments are wrong")
    }

    #[test]
    fn nothing_given_means_nothing_set() {
        assert_eq!(read(""), Ok((None, None)));
    }

    #[test]
    fn each_argument_alone_and_both_in_any_order() {
        let machine = Some("node:1 llc:2 core:4".to_owned());
        assert_eq!(read("worker_threads = 4"), Ok((Some(4), None)));
        assert_eq!(read("worker_threads = 4,"), Ok((Some(4), None)));
        assert_eq!(read("worker_threads = 1_0"), Ok((Some(10), None)));
        assert_eq!(read("worker_threads = 4usize"), Ok((Some(4), None)));
        assert_eq!(read("topology = \"node:1 llc:2 core:4\""), Ok((None, machine.clone())));
        assert_eq!(
            read("topology = \"node:1 llc:2 core:4\", worker_threads = 2"),
            Ok((Some(2), machine.clone()))
        );
        assert_eq!(
            read("worker_threads = 2, topology = \"node:1 llc:2 core:4\""),
            Ok((Some(2), machine))
        );
    }

    #[test]
    fn several_workers_are_refused_beside_a_clock_that_stands() {
        for text in [
            "worker_threads = 2, start_paused = true",
            "start_paused = true, worker_threads = 2",
        ] {
            let message = message(text);
            assert!(message.contains("if it has 1 worker, not 2"), "{message}");
        }
        assert!(read("worker_threads = 2, start_paused = false").is_ok());
        assert!(read("worker_threads = 1, start_paused = true").is_ok());
    }

    #[test]
    fn what_a_flavor_was_is_said() {
        let message = message("flavor = \"current_thread\"");
        assert!(message.contains("`worker_threads = 1`"), "{message}");
    }

    #[test]
    fn an_unknown_argument_is_named_with_what_was_expected() {
        for name in ["threads", "krate", "paused"] {
            let message = message(&format!("{name} = \"x\""));
            assert!(message.contains(&format!("unknown argument `{name}`")), "{message}");
            assert!(
                message.contains("worker_threads") && message.contains("topology"),
                "{message}"
            );
        }
    }

    #[test]
    fn what_is_no_name_is_refused_with_what_was_expected() {
        assert!(message("4").contains("expected `worker_threads = N`"));
        assert!(message("\"node:1\"").contains("expected `worker_threads = N`"));
        assert!(message(", worker_threads = 4").contains("expected `worker_threads = N`"));
    }

    #[test]
    fn a_name_without_value_says_how_it_is_written() {
        assert!(message("worker_threads").contains("`worker_threads = 4`"));
        assert!(message("topology, worker_threads = 1").contains("`topology = "));
        assert!(read("worker_threads =").is_err());
    }

    #[test]
    fn a_wrong_number_of_workers_is_refused() {
        for value in [
            "0",
            "-1",
            "\"4\"",
            "4.0",
            "true",
            "WORKERS",
            "2 + 2",
            "99999999999999999999999",
            "4u7",
        ] {
            let message = message(&format!("worker_threads = {value}"));
            assert!(message.contains("integer literal from 1 on"), "{value}: {message}");
        }
    }

    #[test]
    fn a_wrong_topology_is_refused() {
        for value in ["4", "\"\"", "\"  \"", "MACHINE", "b\"node:1\""] {
            let message = message(&format!("topology = {value}"));
            assert!(message.contains("string literal"), "{value}: {message}");
        }
    }

    #[test]
    fn an_argument_given_twice_is_refused() {
        assert_eq!(
            message("worker_threads = 1, worker_threads = 1"),
            "`worker_threads` is given twice"
        );
        assert_eq!(
            message("topology = \"a\", topology = \"b\""),
            "`topology` is given twice"
        );
    }

    #[test]
    fn the_clock_is_paused_by_a_boolean() {
        let paused = |text: &str| syn::parse_str::<Arguments>(text).map(|arguments| arguments.start_paused);
        assert_eq!(paused("start_paused = true").unwrap(), Some(true));
        assert_eq!(paused("worker_threads = 1, start_paused = false").unwrap(), Some(false));
        for value in ["1", "\"true\"", "yes"] {
            let message = message(&format!("start_paused = {value}"));
            assert!(message.contains("`true` or `false`"), "{value}: {message}");
        }
    }

    #[test]
    fn a_seed_is_an_integer_of_64_bits() {
        let seed = |text: &str| syn::parse_str::<Arguments>(text).map(|arguments| arguments.seed);
        assert_eq!(seed("start_paused = true").unwrap(), None);
        assert_eq!(seed("seed = 7").unwrap(), Some(7));
        assert_eq!(seed("seed = 0x5EED, start_paused = true").unwrap(), Some(0x5EED));
        assert_eq!(seed("seed = 18446744073709551615u64").unwrap(), Some(u64::MAX));
        for value in ["-1", "\"7\"", "1.0", "7u32", "SEED", "18446744073709551616"] {
            let message = message(&format!("seed = {value}"));
            assert!(
                message.contains("integer literal from 0 to 2^64 - 1"),
                "{value}: {message}"
            );
        }
        assert_eq!(message("seed = 1, seed = 1"), "`seed` is given twice");
        assert!(message("seed").contains("`seed = 7`"));
    }

    #[test]
    fn a_thread_has_no_value() {
        let thread = |text: &str| syn::parse_str::<Arguments>(text).map(|arguments| arguments.thread.is_some());
        assert!(!thread("seed = 1").unwrap());
        assert!(thread("thread").unwrap());
        assert!(thread("worker_threads = 1, thread, seed = 1").unwrap());
        assert_eq!(message("thread = true"), "`thread` has no value");
        assert_eq!(message("thread, thread"), "`thread` is given twice");
    }

    #[test]
    fn the_crate_is_a_path_in_quotes_or_without() {
        let path = |text: &str| {
            let home = syn::parse_str::<Arguments>(text).map(|arguments| arguments.home);
            home.unwrap()
                .map(|path| quote::quote!(#path).to_string().replace(' ', ""))
        };
        assert_eq!(path("seed = 1"), None);
        for name in [
            "renamed",
            "framework::quadrille",
            "::framework::quadrille",
            "crate::inner",
            "self::inner",
        ] {
            assert_eq!(path(&format!("crate = {name}")).as_deref(), Some(name));
            assert_eq!(path(&format!("crate = \"{name}\", seed = 1")).as_deref(), Some(name));
        }
        for value in ["4", "\"\"", "\"a b\"", "a::<u8>", "\"a::<u8>\"", "<u8 as A>::b", "f()"] {
            let message = message(&format!("crate = {value}"));
            assert!(message.contains("must be a path"), "{value}: {message}");
        }
        assert_eq!(message("crate = a, crate = b"), "`crate` is given twice");
        assert!(message("crate").contains("framework::quadrille"));
    }

    #[test]
    fn arguments_are_separated_by_commas() {
        assert!(read("worker_threads = 1 topology = \"node:1\"").is_err());
        assert!(read("worker_threads = 1,, topology = \"node:1\"").is_err());
    }
}
