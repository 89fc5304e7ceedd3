//! `cargo xtask package`: makes a release without root, with the same bytes for the same commit.
//!
//! [`build`] builds a static program and the libraries, [`crate::install::plan`] lists the
//! installed files. [`products`] packs them: as tarballs, as Debian packages ([`deb`]) and as an
//! OCI image ([`oci`]), with [`archive`] and [`tree`].

mod archive;
mod build;
mod date;
mod deb;
mod elf;
mod notices;
mod oci;
mod output;
mod release;
#[cfg(test)]
mod tests;
mod tree;

use crate::install::plan;
use crate::symbols;
use crate::tools::{Outcome, at, target_dir};
use archive::{gzip, tar};
use deb::Symbols;
use elf::Elf;
use output::Product;
use release::{Release, VERSION};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tree::Tree;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Output folder [default: package in cargo's target directory]
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// Pack the files of the last build
    #[arg(long)]
    no_build: bool,

    /// Leave out `blkkin sql`, which takes most of the build time
    #[arg(long)]
    without_sql: bool,

    /// Print one line of JSON instead of the table
    #[arg(long)]
    json: bool,
}

/// Prefix at which the tarball's files expect to be; only the systemd units depend on it.
const TARBALL_PREFIX: &str = "/usr/local";
/// Prefix of Debian packages.
const SYSTEM_PREFIX: &str = "/usr";

pub(crate) fn run(options: &Options) -> Outcome {
    let release = Release::find()?;
    if release.has_changes {
        eprintln!(
            "warning: the tree has uncommitted changes, so nobody can make the same files from its \
             commit; commit or stash them before a release"
        );
    }
    if !symbols::can_split() {
        return Err("objcopy is not installed; install the package binutils".to_owned());
    }
    let built = build::built();
    if !options.no_build {
        build::build(&release.platform, !options.without_sql, release.seconds)?;
    }
    let parts = Parts::read(&built)?;
    let products = products(&release, &parts)?;
    let folder = options.output.clone().unwrap_or_else(|| target_dir().join("package"));
    let written = output::write(&folder, products)?;
    let glibc = parts.library.version_max("GLIBC_")?.map(|version| version.to_string());
    if options.json {
        let line = json!({
            "version": VERSION,
            "triple": release.platform.triple,
            "commit": release.commit,
            "has_changes": release.has_changes,
            "seconds": release.seconds,
            "glibc_min": glibc,
            "folder": folder,
            "files": output::json(&written),
        });
        println!("{line}");
        return Ok(ExitCode::SUCCESS);
    }
    print!("{}", output::table(&written));
    println!(
        "in {}: BlkKin {VERSION} for {}; blkkin is static, libblkkin.so needs glibc {} or newer",
        folder.display(),
        release.platform.machine,
        glibc.as_deref().unwrap_or("of any version")
    );
    Ok(ExitCode::SUCCESS)
}

/// Contents of the packages.
struct Parts {
    /// Items with paths below [`TARBALL_PREFIX`].
    local: Vec<plan::Item>,
    /// Items with paths below [`SYSTEM_PREFIX`].
    system: Vec<plan::Item>,
    /// Debug symbols as items, and by build id.
    debug: Vec<plan::Item>,
    symbols: Vec<Symbols>,
    /// Licences of other projects' code in program and library.
    notices: String,
    /// Bytes of the stripped program.
    program: Vec<u8>,
    library: Elf,
}

impl Parts {
    /// Splits the built files, checks them, and reads the parts.
    fn read(built: &Path) -> Result<Parts, String> {
        let missing =
            plan::BUILT.map(|name| built.join(name)).into_iter().find(|file| !file.is_file());
        if let Some(missing) = missing {
            return Err(format!("there is no {}; run it without --no-build", missing.display()));
        }
        symbols::split(built, &plan::BUILT)?;
        for name in plan::BUILT {
            let path = built.join(name);
            for leak in build::leaks(&fs::read(&path).map_err(at(&path))?)? {
                eprintln!(
                    "warning: {name} contains the path {leak}, so a build elsewhere gives other bytes"
                );
            }
        }
        let [program, library] = [plan::PROGRAM, plan::LIBRARY].map(|name| {
            let path = symbols::stripped_file(built, name).unwrap_or_else(|| built.join(name));
            let bytes = fs::read(&path).map_err(at(&path))?;
            let elf = Elf::parse(&bytes).map_err(|why| format!("{}: {why}", path.display()))?;
            Ok::<_, String>((bytes, elf))
        });
        let ((program, program_elf), (_, library)) = (program?, library?);
        if !program_elf.is_static() {
            return Err(format!(
                "{} needs shared libraries; run it without --no-build, which builds it statically",
                built.join(plan::PROGRAM).display()
            ));
        }
        let symbols =
            [(plan::PROGRAM, &program_elf), (plan::LIBRARY, &library)].map(|(name, elf)| {
                let path = symbols::debug_file(built, name);
                let build_id = elf.build_id.clone().ok_or_else(|| {
                    format!("{name} has no build id; run it without --no-build, which adds one")
                })?;
                Ok::<_, String>(Symbols { build_id, bytes: fs::read(&path).map_err(at(&path))? })
            });
        let notices = notices::notices()?;
        let items = |prefix: &str| {
            let mut items = plan::items(built, Path::new(prefix))?;
            let content = plan::Content::Text(notices.clone());
            items.push(plan::Item { path: notices::PATH.into(), content, mode: 0o644 });
            Ok::<_, String>(items)
        };
        Ok(Parts {
            local: items(TARBALL_PREFIX)?,
            system: items(SYSTEM_PREFIX)?,
            debug: plan::debug_items(built)?,
            symbols: symbols.into_iter().collect::<Result<_, _>>()?,
            program,
            library,
            notices,
        })
    }
}

/// Packs the parts. The result depends on the arguments alone.
fn products(release: &Release, parts: &Parts) -> Result<Vec<Product>, String> {
    let stem = release.stem();
    let mut products = Vec::new();
    eprintln!("packing the tarballs");
    products.push(tarball(release, &stem, &parts.local)?);
    products.push(tarball(release, &format!("{stem}-debug"), &parts.debug)?);
    eprintln!("packing the Debian packages");
    products.push(deb::package(release, &parts.system, &parts.library)?);
    products.push(deb::debug_package(release, &parts.symbols)?);
    eprintln!("packing the image");
    products.extend(oci::image(release, &parts.program, &parts.notices)?);
    Ok(products)
}

/// Packs items as a tarball. All tarballs of a release have the same folder, so that the debug
/// symbols are beside the program when both are unpacked.
fn tarball(release: &Release, name: &str, items: &[plan::Item]) -> Result<Product, String> {
    let mut tree = Tree::default();
    tree.install(&release.stem(), items)?;
    let bytes = gzip(&tar(&tree, "", release.seconds)?)?;
    Ok(Product { path: format!("{name}.tar.gz"), bytes })
}
