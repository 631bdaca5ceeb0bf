//! The tests that there are, as `cargo test -- --list` knows them: found by following each test program from its root from
//! module to module, as the compiler does. What is commented out, ignored, or left out by a `cfg` is none.

use std::collections::BTreeMap;

use syn::punctuated::Punctuated;
use syn::{Attribute, Item, ItemMod, Lit, Meta, Token};
use toml::{Table, Value};

use super::tree::Source;

/// A test that runs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Listed {
    /// The file that it stands in, from the root.
    pub(super) file: String,
    /// Its name in that file's program, as the program lists it.
    pub(super) name: String,
    /// Where that program begins.
    pub(super) root: String,
}

impl Listed {
    /// As the docs name it: the file and the function.
    pub(super) fn in_docs(&self) -> String {
        let function = self.name.rsplit("::").next().unwrap_or_default();
        format!("{}::{function}", self.file)
    }
}

/// Every test of every program that `cargo test --workspace` runs.
pub(super) fn tests(files: &[Source]) -> Vec<Listed> {
    let texts: Texts<'_> =
        files.iter().map(|file| (file.path.as_str(), file.text.as_str())).collect();
    let mut found = Vec::new();
    for (path, text) in &texts {
        let Some(folder) = path.strip_suffix("Cargo.toml") else { continue };
        let manifest: Table = text.parse().unwrap_or_else(|err| panic!("{path}: {err}"));
        for root in roots(folder, &manifest, &texts) {
            let mut program = Program { texts: &texts, root: &root, found: Vec::new() };
            program.file(&Place { file: &root, folder: folder_of(&root), modules: Vec::new() });
            found.append(&mut program.found);
        }
    }
    found.sort();
    found
}

/// Files by their paths.
type Texts<'a> = BTreeMap<&'a str, &'a str>;

/// Where the test programs of a package begin.
fn roots(folder: &str, manifest: &Table, texts: &Texts<'_>) -> Vec<String> {
    if !manifest.contains_key("package") {
        return Vec::new();
    }
    let (libs, bins, tests) =
        (targets(manifest, "lib"), targets(manifest, "bin"), targets(manifest, "test"));
    let text = |target: &Table, key: &str| Some(target.get(key)?.as_str()?.to_owned());
    let mut roots = Vec::new();
    let usual = |said: &[&Table], usual: &str| {
        let is_usual = |it: &&Table| text(it, "path").is_none_or(|path| path == usual);
        (!said.iter().any(is_usual)).then(|| usual.to_owned())
    };
    if libs.is_empty() {
        roots.push("src/lib.rs".to_owned());
    }
    let lib = |it: &&Table| text(it, "path").unwrap_or_else(|| "src/lib.rs".to_owned());
    roots.extend(libs.iter().filter(|it| runs(it)).map(lib));
    roots.extend(usual(&bins, "src/main.rs"));
    let bin = |it: &&Table| text(it, "path").unwrap_or_else(|| "src/main.rs".to_owned());
    roots.extend(bins.iter().filter(|it| runs(it)).map(bin));
    let named: Vec<String> = tests.iter().filter_map(|it| text(it, "name")).collect();
    let test =
        |it: &&Table| text(it, "path").or_else(|| Some(format!("tests/{}.rs", text(it, "name")?)));
    roots.extend(tests.iter().filter(|it| runs(it)).filter_map(test));
    for path in texts.keys().filter_map(|path| path.strip_prefix(&format!("{folder}tests/"))) {
        let name = path.strip_suffix("/main.rs").or(path.strip_suffix(".rs")).unwrap_or("/");
        if !name.contains('/') && !named.iter().any(|it| it == name) {
            roots.push(format!("tests/{path}"));
        }
    }
    let paths = roots.into_iter().map(|path| format!("{folder}{path}"));
    paths.filter(|path| texts.contains_key(path.as_str())).collect()
}

fn targets<'a>(manifest: &'a Table, kind: &str) -> Vec<&'a Table> {
    match manifest.get(kind) {
        Some(Value::Table(one)) => vec![one],
        Some(Value::Array(many)) => many.iter().filter_map(Value::as_table).collect(),
        _ => Vec::new(),
    }
}

/// Whether a target is built as a test program, with functions that are listed.
fn runs(target: &Table) -> bool {
    let is = |name: &str| target.get(name).and_then(Value::as_bool) != Some(false);
    is("test") && is("harness") && !target.contains_key("required-features")
}

/// A test program that is gone through.
struct Program<'a> {
    texts: &'a Texts<'a>,
    root: &'a str,
    found: Vec<Listed>,
}

/// Where in a program something stands.
struct Place<'a> {
    file: &'a str,
    /// Where its modules have their files.
    folder: String,
    modules: Vec<String>,
}

impl Program<'_> {
    fn file(&mut self, place: &Place<'_>) {
        let file = place.file;
        let Some(text) = self.texts.get(file) else { panic!("{}: no {file}", self.root) };
        let parsed = syn::parse_file(text).unwrap_or_else(|err| panic!("{file}: {err}"));
        if is_built(&parsed.attrs) {
            self.items(&parsed.items, place);
        }
    }

    fn items(&mut self, items: &[Item], place: &Place<'_>) {
        for item in items {
            match item {
                Item::Fn(function) if is_built(&function.attrs) && is_test(&function.attrs) => {
                    let mut names = place.modules.clone();
                    names.push(function.sig.ident.to_string());
                    let (file, root) = (place.file.to_owned(), self.root.to_owned());
                    self.found.push(Listed { file, name: names.join("::"), root });
                }
                Item::Mod(module) if is_built(&module.attrs) => self.module(module, place),
                _ => {}
            }
        }
    }

    fn module(&mut self, module: &ItemMod, place: &Place<'_>) {
        let name = module.ident.to_string();
        let below = format!("{}{name}/", place.folder);
        let mut modules = place.modules.clone();
        modules.push(name.clone());
        if let Some((_, items)) = &module.content {
            return self.items(items, &Place { file: place.file, folder: below, modules });
        }
        let (file, folder) = match said_path(&module.attrs) {
            Some(path) => {
                let file = normal(&format!("{}{path}", folder_of(place.file)));
                let folder = folder_of(&file);
                (file, folder)
            }
            None => (format!("{}{name}.rs", place.folder), below),
        };
        self.file(&Place { file: &file, folder, modules });
    }
}

fn folder_of(file: &str) -> String {
    file.rsplit_once('/').map_or_else(String::new, |(folder, _)| format!("{folder}/"))
}

/// A path without steps back.
fn normal(path: &str) -> String {
    let mut steps: Vec<&str> = Vec::new();
    for step in path.split('/') {
        match step {
            "." => {}
            ".." => drop(steps.pop()),
            step => steps.push(step),
        }
    }
    steps.join("/")
}

fn said_path(attributes: &[Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            syn::Expr::Lit(syn::ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    })
}

/// Whether it is a function that is listed and runs when nobody asks for ignored ones.
fn is_test(attributes: &[Attribute]) -> bool {
    let is = |attribute: &Attribute, name: &str| {
        attribute.path().segments.last().is_some_and(|segment| segment.ident == name)
    };
    attributes.iter().any(|attribute| is(attribute, "test"))
        && !attributes.iter().any(|attribute| is(attribute, "ignore"))
}

/// Whether every `cfg` holds for a test of this platform, without features.
fn is_built(attributes: &[Attribute]) -> bool {
    attributes.iter().all(|attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident("cfg") => {
            list.parse_args::<Meta>().is_ok_and(|condition| holds(&condition))
        }
        // One that may ignore a test here is taken for one that does.
        Meta::List(list) if list.path.is_ident("cfg_attr") => {
            !list.tokens.to_string().contains("ignore")
        }
        _ => true,
    })
}

fn holds(condition: &Meta) -> bool {
    match condition {
        Meta::Path(path) => path.is_ident("test") || (path.is_ident("unix") && cfg!(unix)),
        Meta::NameValue(pair) => {
            let text = match &pair.value {
                syn::Expr::Lit(syn::ExprLit { lit: Lit::Str(text), .. }) => text.value(),
                _ => return false,
            };
            pair.path.is_ident("target_os") && text == std::env::consts::OS
        }
        Meta::List(list) => {
            let parse = Punctuated::<Meta, Token![,]>::parse_terminated;
            let Ok(parts) = list.parse_args_with(parse) else { return false };
            match list.path.get_ident().map(ToString::to_string).as_deref() {
                Some("all") => parts.iter().all(holds),
                Some("any") => parts.iter().any(holds),
                Some("not") => parts.iter().all(|part| !holds(part)),
                _ => false,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<Source> = files
            .iter()
            .map(|(path, text)| Source { path: (*path).to_owned(), text: (*text).to_owned() })
            .collect();
        tests(&sources).iter().map(|test| format!("{} {}", test.file, test.name)).collect()
    }

    #[test]
    fn a_test_is_found_where_its_module_is() {
        let files = [
            (
                "crates/a/Cargo.toml",
                "[package]\nname = 'a'\n[[test]]\nname = 'it'\npath = 'it/main.rs'",
            ),
            ("crates/a/src/lib.rs", "mod b;\n#[path = \"../far/d.rs\"] mod c;\nfn helps() {}"),
            ("crates/a/src/b.rs", "#[cfg(test)] mod tests { #[test] fn one() {} mod deep; }"),
            (
                "crates/a/src/b/tests/deep.rs",
                "#[tokio::test(start_paused = true)] async fn two() {}",
            ),
            ("crates/a/far/d.rs", "#[test] #[should_panic] fn three() {}"),
            ("crates/a/src/nobodys.rs", "#[test] fn four() {}"),
            ("crates/a/it/main.rs", "mod e;"),
            ("crates/a/it/e.rs", "#[cfg(all(unix, not(windows)))] #[test] fn five() {}"),
            ("crates/a/tests/more.rs", "#[test] fn six() {}"),
            ("crates/a/tests/whole/main.rs", "#[test] fn seven() {}"),
        ];
        let expected = [
            "crates/a/far/d.rs c::three",
            "crates/a/it/e.rs e::five",
            "crates/a/src/b.rs b::tests::one",
            "crates/a/src/b/tests/deep.rs b::tests::deep::two",
            "crates/a/tests/more.rs six",
            "crates/a/tests/whole/main.rs seven",
        ];
        assert_eq!(found(&files), expected);
    }

    #[test]
    fn what_nobody_runs_is_no_test() {
        let of = |text: &str| {
            found(&[
                ("crates/a/Cargo.toml", "[package]\nname = 'a'"),
                ("crates/a/src/lib.rs", text),
            ])
            .len()
        };
        assert_eq!(of("#[test] fn runs() {}"), 1);
        for text in [
            "fn no_test() {}",
            "// #[test]\n// fn commented() {}",
            "/* #[test] fn commented() {} */",
            "const TEXT: &str = \"#[test] fn quoted() {}\";",
            "#[test] #[ignore] fn ignored() {}",
            "#[test] #[ignore = \"slow\"] fn ignored() {}",
            "#[test] #[cfg_attr(unix, ignore)] fn ignored() {}",
            "#[cfg(any())] #[test] fn left_out() {}",
            "#[cfg(feature = \"x\")] mod tests { #[test] fn left_out() {} }",
            "#![cfg(target_os = \"nowhere\")] #[test] fn left_out() {}",
            "#[cfg(not(test))] mod tests { #[test] fn left_out() {} }",
        ] {
            assert_eq!(of(text), 0, "{text}");
        }
        let without = "[package]\nname = 'a'\n[lib]\ntest = false";
        assert_eq!(
            found(&[
                ("crates/a/Cargo.toml", without),
                ("crates/a/src/lib.rs", "#[test] fn x() {}")
            ]),
            [""; 0]
        );
    }
}
