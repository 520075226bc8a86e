//! From the attributed function to the function that starts a runtime.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{
    AttrStyle, Attribute, Error, FnArg, GenericParam, Ident, ItemFn, Path, Result, ReturnType, Signature, Type,
    parse_quote,
};

use crate::arguments::Arguments;

/// Which attribute is expanded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// `#[quadrille::main]`.
    Main,
    /// `#[quadrille::test]`.
    Test,
}

impl Entry {
    /// How the user writes it.
    const fn name(self) -> &'static str {
        match self {
            Entry::Main => "#[quadrille::main]",
            Entry::Test => "#[quadrille::test]",
        }
    }
}

/// Expands one attribute; what is wrong becomes a compile error beside the function, so that the rest of the program
/// still finds its name. If only the arguments are wrong it is started by default, or the compiler would add that
/// `main` may not be `async`.
pub(crate) fn entry(entry: Entry, arguments: TokenStream, item: TokenStream) -> TokenStream {
    match try_entry(entry, arguments, item.clone()) {
        Ok(expansion) => expansion,
        Err(error) => {
            let error = error.into_compile_error();
            let item = try_entry(entry, TokenStream::new(), item.clone()).unwrap_or(item);
            quote!(#error #item)
        }
    }
}

/// Expands one attribute, or says what is wrong.
fn try_entry(entry: Entry, arguments: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let arguments: Arguments = syn::parse2(arguments)?;
    let item: ItemFn = syn::parse2(item).map_err(|error| {
        Error::new(
            error.span(),
            format!("{} needs {}: {error}", entry.name(), arguments.kind()),
        )
    })?;
    check(entry, &arguments, &item)?;
    Ok(expand(entry, &arguments, &item))
}

/// Where `Self` stands in it first.
fn find_self_type(tokens: TokenStream) -> Option<Span> {
    tokens.into_iter().find_map(|token| match token {
        TokenTree::Ident(ident) => (ident == "Self").then(|| ident.span()),
        TokenTree::Group(group) => find_self_type(group.stream()),
        _ => None,
    })
}

/// Refuses what can't be started.
fn check(entry: Entry, arguments: &Arguments, item: &ItemFn) -> Result<()> {
    let name = entry.name();
    let signature = &item.sig;
    let refuse = |span, what: &str| Err(Error::new(span, format!("{name} {what}")));
    match (signature.asyncness, &arguments.thread) {
        (None, None) => {
            return refuse(
                signature.fn_token.span(),
                "needs an `async fn`: write `async` before `fn`, or `thread` in the parentheses, to run a plain one on a \
                 user-level thread",
            );
        }
        (Some(_), Some(thread)) => {
            return refuse(
                thread.span(),
                "runs a plain `fn` if it is told `thread`: remove that, or `async`",
            );
        }
        _ => {}
    }
    if let Some(receiver) = signature.receiver() {
        return refuse(receiver.span(), "needs a free function, found `self`");
    }
    // The function is nested in the one that is made, where `Self` is nobody.
    if let Some(span) = find_self_type(signature.to_token_stream()) {
        return refuse(span, "needs a free function, found `Self`");
    }
    let is_bare = entry == Entry::Test || arguments.thread.is_some();
    if is_bare && !signature.inputs.is_empty() {
        return refuse(signature.inputs.span(), "needs a function without arguments");
    }
    if is_bare && !signature.generics.params.is_empty() {
        return refuse(signature.generics.span(), "needs a function without generic parameters");
    }
    if let Some(attribute) = item
        .attrs
        .iter()
        .find(|attribute| entry == Entry::Test && is_test(attribute))
    {
        return refuse(
            attribute.span(),
            "adds `#[test]` itself: remove the second test attribute",
        );
    }
    Ok(())
}

/// Is this `#[test]`, or the test attribute of some runtime?
fn is_test(attribute: &Attribute) -> bool {
    attribute
        .path()
        .segments
        .last()
        .is_some_and(|last| last.ident == "test")
}

/// The function that starts the runtime, with the written one inside.
fn expand(entry: Entry, arguments: &Arguments, item: &ItemFn) -> TokenStream {
    let ItemFn { attrs, vis, sig, block } = item;
    // Those in the body hold for the outer function, too, before which they are printed.
    let attrs = attrs.iter().cloned().map(|attribute| Attribute {
        style: AttrStyle::Outer,
        ..attribute
    });
    let mut outer = sig.clone();
    outer.asyncness = None;
    let passed = named_arguments(&mut outer);
    let runtime = build(entry, arguments);
    let run = match arguments.thread {
        Some(_) => {
            let name = &sig.ident;
            outer.constness = None;
            // So it stays: what `#[should_panic]` stands on must return nothing.
            let body = if returns_nothing(sig) {
                quote!(#name())
            } else {
                outer.output = parse_quote!(-> ::std::process::ExitCode);
                quote!(::std::process::Termination::report(#name()))
            };
            // Nothing of the user's has this name.
            let local = Ident::new("runtime", Span::mixed_site());
            let thread = run_on_thread(entry, arguments, name, &local, &body);
            quote!(let #local = #runtime; #thread)
        }
        None => {
            let (name, generics) = (&sig.ident, turbofish(sig));
            quote!(#runtime.block_on(#name #generics (#(#passed),*)))
        }
    };
    let test = (entry == Entry::Test).then(|| quote!(#[::core::prelude::v1::test]));
    quote! {
        #test
        #(#attrs)*
        #vis #outer {
            #sig #block
            #run
        }
    }
}

/// The runtime that the arguments ask for.
fn build(entry: Entry, arguments: &Arguments) -> TokenStream {
    let home = home(arguments);
    let worker_threads = arguments.worker_threads.map(|number| quote!(.worker_threads(#number)));
    let start_paused = arguments.start_paused.map(|paused| quote!(.start_paused(#paused)));
    let seed = arguments.seed.map(|seed| quote!(.seed(#seed)));
    let topology = arguments.topology.as_ref().map(|text| {
        let message = format!("{}: topology = {:?}", entry.name(), text.value());
        quote! {
            .topology(
                <#home::topology::Topology as ::core::str::FromStr>::from_str(#text)
                    .unwrap_or_else(|error| ::core::panic!("{}: {}", #message, error))
            )
        }
    });
    let message = format!("{}: the runtime can't be built", entry.name());
    quote! {
        #home::Runtime::builder()
            #worker_threads
            #topology
            #start_paused
            #seed
            .build()
            .unwrap_or_else(|error| ::core::panic!("{}: {}", #message, error))
    }
}

fn home(arguments: &Arguments) -> Path {
    arguments.home.clone().unwrap_or_else(|| parse_quote!(::quadrille))
}

fn returns_nothing(signature: &Signature) -> bool {
    match &signature.output {
        ReturnType::Default => true,
        ReturnType::Type(_, output) => matches!(&**output, Type::Tuple(tuple) if tuple.elems.is_empty()),
    }
}

/// Runs `body`, which calls the function called `name`, on a user-level thread of `runtime`, whose stack is as large as
/// std gives to `main`, or to a test. What the function returns need not be `Send`: it is reported there, as std would
/// report it.
fn run_on_thread(
    entry: Entry,
    arguments: &Arguments,
    name: &Ident,
    runtime: &Ident,
    body: &TokenStream,
) -> TokenStream {
    let home = home(arguments);
    let stack_size: usize = match entry {
        Entry::Main => 8 << 20,
        Entry::Test => 2 << 20,
    };
    let message = format!("{}: the thread can't be started", entry.name());
    let text = name.unraw().to_string();
    quote! {
        #home::thread::Builder::new()
            .name(::std::string::String::from(#text))
            .stack_size(#stack_size)
            .spawn_on(|| #body, #runtime.handle())
            .unwrap_or_else(|error| ::core::panic!("{}: {}", #message, error))
            .join()
            .unwrap_or_else(|panic| ::std::panic::resume_unwind(panic))
    }
}

/// Gives each argument a name in place of its pattern, which stays with the function that was written; the names.
fn named_arguments(outer: &mut Signature) -> Vec<Ident> {
    let arguments = outer.inputs.iter_mut().filter_map(|input| match input {
        FnArg::Typed(argument) => Some(argument),
        FnArg::Receiver(_) => None,
    });
    arguments
        .enumerate()
        .map(|(index, argument)| {
            let name = format_ident!("argument_{index}");
            argument.pat = parse_quote!(#name);
            name
        })
        .collect()
}

/// What a call of the written function from the one around it says of types and constants that arguments alone might
/// not tell; nothing where there are none. Lifetimes are found by the compiler.
fn turbofish(signature: &Signature) -> Option<TokenStream> {
    let names: Vec<&Ident> = signature
        .generics
        .params
        .iter()
        .filter_map(|parameter| match parameter {
            GenericParam::Type(parameter) => Some(&parameter.ident),
            GenericParam::Const(parameter) => Some(&parameter.ident),
            GenericParam::Lifetime(_) => None,
        })
        .collect();
    (!names.is_empty()).then(|| quote!(::<#(#names),*>))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tokens of a text.
    fn tokens(text: &str) -> TokenStream {
        text.parse().expect("the test's text is made of tokens")
    }

    /// The expansion, with the spaces that tokens print with.
    fn expansion(entry: Entry, arguments: &str, item: &str) -> String {
        try_entry(entry, tokens(arguments), tokens(item))
            .expect("the function can be started")
            .to_string()
    }

    /// The message for a wrong function.
    fn message(entry: Entry, item: &str) -> String {
        try_entry(entry, TokenStream::new(), tokens(item))
            .expect_err("the function can't be started")
            .to_string()
    }

    /// The printed form of a text that occurs in an expansion.
    fn printed(text: &str) -> String {
        tokens(text).to_string()
    }

    /// Both attributes.
    const BOTH: [Entry; 2] = [Entry::Main, Entry::Test];

    #[test]
    fn wrong_arguments_are_the_only_error() {
        let whole = |arguments: &str, item: &str| entry(Entry::Main, tokens(arguments), tokens(item)).to_string();
        let both = whole("threads = 4", "async fn main() {}");
        assert!(both.contains("compile_error") && both.contains("block_on"), "{both}");
        assert_eq!(both.matches("compile_error").count(), 1);
        // What is wrong with the function stays the only error, too.
        let plain = whole("threads = 4", "fn main() {}");
        assert!(
            plain.contains("compile_error") && !plain.contains("block_on"),
            "{plain}"
        );
    }

    #[test]
    fn main_becomes_a_plain_function_around_the_async_one() {
        let written = "async fn main() -> Result<(), Error> { step().await?; Ok(()) }";
        let text = expansion(Entry::Main, "", written);
        let expected = "fn main() -> Result<(), Error> {
            async fn main() -> Result<(), Error> { step().await?; Ok(()) }
            ::quadrille::Runtime::builder()
                .build()
                .unwrap_or_else(|error| ::core::panic!(\"{}: {}\", \"#[quadrille::main]: the runtime can't be built\", error))
                .block_on(main())
        }";
        let squeezed = |text: &str| text.replace(char::is_whitespace, "");
        assert_eq!(squeezed(&text), squeezed(expected));
    }

    #[test]
    fn an_expansion_is_one_item() {
        for entry in BOTH {
            let text = expansion(
                entry,
                "worker_threads = 3, topology = \"core:3\"",
                "pub async fn run() -> u8 { 1 }",
            );
            let item: ItemFn = syn::parse_str(&text).expect("a function");
            assert!(item.sig.asyncness.is_none());
            assert!(matches!(item.vis, syn::Visibility::Public(_)));
        }
    }

    #[test]
    fn arguments_become_calls_of_the_builder() {
        let text = expansion(
            Entry::Main,
            "worker_threads = 3, topology = \"core:3\"",
            "async fn main() {}",
        );
        assert!(text.contains(&printed(".worker_threads(3usize)")), "{text}");
        assert!(text.contains("Topology as :: core :: str :: FromStr"), "{text}");
        assert!(text.contains("from_str (\"core:3\")"), "{text}");
        assert!(
            text.contains("topology = \\\"core:3\\\""),
            "the panic names the string: {text}"
        );
    }

    #[test]
    fn a_seed_goes_to_the_builder() {
        let text = expansion(Entry::Test, "seed = 0x10, start_paused = true", "async fn works() {}");
        assert!(text.contains(&printed(".start_paused(true).seed(16u64)")), "{text}");
        assert!(!expansion(Entry::Test, "", "async fn works() {}").contains("seed"));
    }

    #[test]
    fn the_crate_is_named_by_the_path_that_is_given() {
        for arguments in [
            "topology = \"core:3\", crate = \"my::own\"",
            "crate = my::own, topology = \"core:3\"",
        ] {
            let text = expansion(Entry::Test, arguments, "async fn works() {}");
            assert!(text.contains(&printed("my::own::Runtime::builder()")), "{text}");
            assert!(text.contains(&printed("<my::own::topology::Topology as")), "{text}");
            assert!(!text.contains(&printed("::quadrille::")), "{text}");
        }
    }

    #[test]
    fn a_test_is_a_test_and_main_is_none() {
        let attribute = printed("#[::core::prelude::v1::test]");
        assert!(expansion(Entry::Test, "", "async fn works() {}").starts_with(&attribute));
        assert!(!expansion(Entry::Main, "", "async fn main() {}").contains(&attribute));
    }

    #[test]
    fn other_attributes_stay_on_the_outer_function() {
        let written = "/// What.\n#[should_panic(expected = \"x\")] #[ignore] async fn works() {}";
        let text = expansion(Entry::Test, "", written);
        let item: ItemFn = syn::parse_str(&text).expect("a function");
        let names: Vec<String> = item
            .attrs
            .iter()
            .map(|attribute| {
                attribute
                    .path()
                    .segments
                    .last()
                    .expect("a path has a segment")
                    .ident
                    .to_string()
            })
            .collect();
        assert_eq!(names, ["test", "doc", "should_panic", "ignore"]);
        assert_eq!(text.matches("should_panic").count(), 1);
    }

    #[test]
    fn an_attribute_in_the_body_stands_before_the_outer_function() {
        for entry in BOTH {
            let written = "#[ignore] async fn works() { #![allow(unused)] //! What.\n let x = 1; }";
            let text = expansion(entry, "", written);
            let item: ItemFn = syn::parse_str(&text).expect("a function");
            let outer = |attribute: &Attribute| matches!(attribute.style, AttrStyle::Outer);
            assert!(item.attrs.iter().all(outer), "{text}");
            let names = ["ignore", "allow", "doc"];
            let ours = item.attrs.iter().filter(|attribute| !is_test(attribute));
            assert!(
                ours.zip(names).all(|(attribute, name)| attribute.path().is_ident(name)),
                "{text}"
            );
            assert_eq!(text.matches("allow").count(), 1, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_started_is_refused_by_name() {
        for entry in BOTH {
            let name = entry.name();
            for (item, part) in [
                ("fn main() {}", "write `async` before `fn`"),
                ("async fn main(&self) {}", "found `self`"),
                ("async fn main(self: Box<Self>) {}", "found `self`"),
                ("async fn main() -> Result<(), (u8, Self)> {}", "found `Self`"),
                ("struct Main;", "needs an `async fn`"),
                ("", "needs an `async fn`"),
            ] {
                let message = message(entry, item);
                assert!(message.contains(name), "{item}: {message}");
                assert!(message.contains(part), "{item}: {message}");
            }
        }
    }

    #[test]
    fn a_plain_function_runs_on_a_thread_that_is_asked_for() {
        let written = "#[ignore] fn works() -> Result<(), Box<dyn Error>> { Ok(()) }";
        let text = expansion(Entry::Test, "thread, worker_threads = 1", written);
        let item: ItemFn = syn::parse_str(&text).expect("a function");
        assert_eq!(item.attrs.len(), 2);
        assert!(
            text.contains(&printed("fn works() -> ::std::process::ExitCode")),
            "{text}"
        );
        assert!(text.contains("{ fn works () -> Result <"), "{text}");
        assert!(text.contains(&printed(".worker_threads(1usize)")), "{text}");
        assert!(text.contains(&printed("Termination::report(works())")), "{text}");
        assert!(text.contains(&printed("String::from(\"works\")")), "{text}");
        assert!(text.contains(&printed(".stack_size(2097152usize)")), "{text}");
        assert!(!text.contains("block_on"), "{text}");
        for item in ["fn main() {}", "const fn main() -> () {}"] {
            let text = expansion(Entry::Main, "thread", item);
            let spawned = printed("spawn_on(|| main(), runtime.handle())");
            assert!(text.contains(&spawned), "{text}");
            assert!(!text.contains("ExitCode") && !text.starts_with("const"), "{text}");
        }
        for (item, part) in [
            ("async fn main() {}", "remove that, or `async`"),
            ("fn main(a: u8) {}", "without arguments"),
            ("fn main<T>() {}", "without generic parameters"),
        ] {
            let error = try_entry(Entry::Main, tokens("thread"), tokens(item)).expect_err("it can't be started");
            assert!(error.to_string().contains(part), "{item}: {error}");
        }
    }

    #[test]
    fn a_test_has_neither_arguments_nor_generic_parameters() {
        for (item, part) in [
            ("async fn works(arguments: Vec<String>) {}", "without arguments"),
            ("async fn works<T>() {}", "without generic parameters"),
        ] {
            let message = message(Entry::Test, item);
            assert!(message.contains(Entry::Test.name()), "{item}: {message}");
            assert!(message.contains(part), "{item}: {message}");
        }
    }

    #[test]
    fn arguments_are_passed_on_by_names_of_their_own() {
        let written = "async fn run((a, mut b): (u8, u8), _: impl Copy) { b += a; }";
        let text = expansion(Entry::Main, "", written);
        let outer = "fn run(argument_0: (u8, u8), argument_1: impl Copy)";
        assert!(text.starts_with(&printed(outer)), "{text}");
        assert!(
            text.contains(&printed(written)),
            "patterns stay where they were: {text}"
        );
        assert!(text.contains(&printed("run(argument_0, argument_1)")), "{text}");
    }

    #[test]
    fn generic_parameters_are_passed_on_but_for_lifetimes() {
        let written =
            "async fn run<'a, T: Default, const N: usize>(text: &'a str) -> (&'a str, T) where T: Copy { f() }";
        let text = expansion(Entry::Main, "", written);
        let squeezed = text.replace(char::is_whitespace, "");
        assert!(squeezed.contains(".block_on(run::<T,N>(argument_0))"), "{text}");
        let item: ItemFn = syn::parse_str(&text).expect("a function");
        assert_eq!(item.sig.generics.params.len(), 3);
        assert!(item.sig.generics.where_clause.is_some());
    }

    #[test]
    fn a_second_test_attribute_is_refused() {
        assert!(message(Entry::Test, "#[test] async fn works() {}").contains("second test attribute"));
        assert!(message(Entry::Test, "#[quadrille::test] async fn works() {}").contains("second test attribute"));
    }

    #[test]
    fn an_error_keeps_the_function() {
        let text = entry(Entry::Main, tokens("threads = 1"), tokens("async fn main() { body() }")).to_string();
        assert!(text.contains("compile_error"), "{text}");
        assert!(text.contains("unknown argument `threads`"), "{text}");
        assert!(text.contains(&printed("async fn main() { body() }")), "{text}");
    }
}
