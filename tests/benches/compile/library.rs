//! The libraries that are built: real handlers, many times.
//!
//! What they are made of is in `axum` and `actix`: a root, and a module with one handler at its end.

use std::{
    fs,
    path::{Path, PathBuf},
};

pub(crate) const MODULES: usize = 10;
/// How many handlers each module has.
pub(crate) const HANDLERS: usize = 20;

/// What stands above each handler, in the order in which it is reported.
pub(crate) const VARIANTS: [&str; 3] = ["plain", "idempotent", "instrument"];

/// What the handlers are written for.
pub(crate) struct Framework {
    pub(crate) name: &'static str,
    /// What stands above a handler, of each variant.
    attributes: [&'static str; VARIANTS.len()],
    dependencies: &'static str,
    root: &'static str,
    module: &'static str,
}

pub(crate) const FRAMEWORKS: [Framework; 2] = [
    Framework {
        name: "axum",
        attributes: [
            "",
            "#[idem_axum::idempotent(scope = \"user\", ttl = \"24h\")]\n",
            "#[tracing::instrument(skip_all)]\n",
        ],
        dependencies: "axum = { version = \"*\", default-features = false, features = [\"http1\", \"json\", \"tokio\"] }\n",
        root: include_str!("axum/lib.rs"),
        module: include_str!("axum/module.rs"),
    },
    Framework {
        name: "actix",
        attributes: [
            "",
            "#[idem_actix::idempotent(scope = \"user\", ttl = \"24h\")]\n",
            "#[tracing::instrument(skip_all)]\n",
        ],
        dependencies: "actix-web = { version = \"*\", default-features = false, features = [\"macros\"] }\n",
        root: include_str!("actix/lib.rs"),
        module: include_str!("actix/module.rs"),
    },
];

/// A library of handlers.
pub(crate) struct Library {
    /// The name of its package.
    pub(crate) name: String,
    root: PathBuf,
    text: String,
    changes: usize,
}

impl Library {
    /// Changes a comment.
    pub(crate) fn change(&mut self) {
        self.changes += 1;
        put(
            &self.root,
            &format!("{}// Change {}.\n", self.text, self.changes),
        );
    }
}

/// Writes a workspace of all variants for all frameworks, the variants of a framework one after the
/// other. It has the versions of ours.
pub(crate) fn write(scratch: &Path) -> Vec<Library> {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the workspace is around its tests");
    let mut libraries = Vec::new();
    for framework in &FRAMEWORKS {
        for (variant, attribute) in VARIANTS.iter().zip(framework.attributes) {
            let name = format!("{}-{variant}", framework.name);
            let sources = scratch.join(&name).join("src");
            fs::create_dir_all(&sources).expect("the target directory is ours");
            // All variants need the same, so that nothing but the attribute differs.
            let manifest = format!(
                "[package]\nname = \"{name}\"\nedition = \"2024\"\n\n[dependencies]\n{}\
                 idem-{} = {{ path = '{}' }}\n\
                 serde = {{ version = \"*\", features = [\"derive\"] }}\n\
                 tracing = {{ version = \"*\", default-features = false, features = [\"attributes\"] }}\n",
                framework.dependencies,
                framework.name,
                ours.join(format!("idem-{}", framework.name)).display(),
            );
            put(&scratch.join(&name).join("Cargo.toml"), &manifest);
            put(&sources.join("app.rs"), include_str!("app.rs"));
            for module in 0..MODULES {
                let text = module_with(framework.module, attribute);
                put(&sources.join(format!("m{module:02}.rs")), &text);
            }
            let mut library = Library {
                name,
                root: sources.join("lib.rs"),
                text: root(framework.root),
                changes: 0,
            };
            library.change();
            libraries.push(library);
        }
    }
    let members: Vec<_> = libraries.iter().map(|library| &library.name).collect();
    let manifest = format!(
        "[workspace]\nresolver = \"3\"\nmembers = {members:?}\n\n[profile.dev]\ndebug = false\n"
    );
    put(&scratch.join("Cargo.toml"), &manifest);
    let lock = fs::copy(ours.join("Cargo.lock"), scratch.join("Cargo.lock"));
    lock.expect("the workspace has a lockfile");
    libraries
}

/// The root with all modules and handlers.
fn root(template: &str) -> String {
    let lines = template.lines().flat_map(|line| {
        let (modules, handlers) = match line {
            "mod module;" => (MODULES, 1),
            _ if line.contains("module::handler") => (MODULES, HANDLERS),
            _ => (1, 1),
        };
        (0..modules).flat_map(move |module| {
            (0..handlers).map(move |handler| {
                let line = line.replace("module", &format!("m{module:02}"));
                line.replace("handler", &format!("h{handler:02}")) + "\n"
            })
        })
    });
    lines.collect()
}

/// The module with all its handlers.
fn module_with(template: &str, attribute: &str) -> String {
    const HANDLER: &str = "pub async fn handler(";
    let at = template
        .find(HANDLER)
        .expect("a module ends with a handler");
    let (head, handler) = template.split_at(at);
    let handlers = (0..HANDLERS).map(|number| {
        let name = format!("pub async fn h{number:02}(");
        format!("{attribute}{}\n", handler.replace(HANDLER, &name))
    });
    head.to_owned() + &handlers.collect::<String>()
}

fn put(path: &Path, text: &str) {
    fs::write(path, text).expect("the target directory is ours");
}
