//! The OCI image: one layer with the static program, its configuration, and the image layout that
//! `podman`, `skopeo` and others read, as a folder and as a tar archive.

use super::archive::{gzip, sha256, tar};
use super::date;
use super::notices;
use super::output::Product;
use super::release::{Release, VERSION};
use super::tree::Tree;
use crate::tools::{at, workspace_root};
use serde_json::{Value, json};
use std::fs;

/// User and group of the program, which own the data folder. 65532 is the usual number of a user
/// without rights in such images.
const USER: u32 = 65532;
/// Folder of the program's data, to mount a volume at.
const DATA: &str = "var/lib/blkkin";

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// Makes the image of a static program: the files of the layout, and the layout as one archive.
pub(super) fn image(
    release: &Release,
    program: &[u8],
    notices: &str,
) -> Result<Vec<Product>, String> {
    let layout = layout(release, files(program, notices)?)?;
    let name = format!("{}.oci", release.stem());
    let archive = tar(&layout, "", release.seconds)?;
    let files = layout.files();
    let mut products: Vec<Product> = files
        .map(|(path, bytes)| Product { path: format!("{name}/{path}"), bytes: bytes.to_vec() })
        .collect();
    products.push(Product { path: format!("{name}.tar"), bytes: archive });
    Ok(products)
}

fn layout(release: &Release, files: Tree) -> Result<Tree, String> {
    let layer = tar(&files, "", release.seconds)?;
    let layer_id = format!("sha256:{}", sha256(&layer));
    let mut layout = Tree::default();
    let layer = blob(&mut layout, LAYER, &gzip(&layer)?);
    let config = blob(&mut layout, CONFIG, &bytes(&config(release, &layer_id)));
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": config,
        "layers": [layer],
        "annotations": labels(release),
    });
    let mut manifest = blob(&mut layout, MANIFEST, &bytes(&manifest));
    manifest["platform"] = json!({"architecture": release.platform.oci, "os": "linux"});
    // The name that tools give to the image when they load it.
    manifest["annotations"] =
        json!({"org.opencontainers.image.ref.name": format!("blkkin:{VERSION}")});
    let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [manifest]});
    layout.file("index.json", bytes(&index), 0o644);
    layout.file("oci-layout", bytes(&json!({"imageLayoutVersion": "1.0.0"})), 0o644);
    Ok(layout)
}

/// Returns the files of the layer.
fn files(program: &[u8], notices: &str) -> Result<Tree, String> {
    let mut tree = Tree::default();
    tree.file("usr/bin/blkkin", program, 0o755);
    tree.file("etc/passwd", include_str!("files/passwd"), 0o644);
    tree.file("etc/group", include_str!("files/group"), 0o644);
    // Without this file, glibc does not look into /etc/hosts first.
    tree.file("etc/nsswitch.conf", include_str!("files/nsswitch.conf"), 0o644);
    tree.file(&format!("usr/{}", notices::PATH), notices, 0o644);
    tree.folder("tmp", 0o1777, 0);
    tree.folder(DATA, 0o750, USER);
    for name in ["LICENSE-MIT", "LICENSE-APACHE"] {
        let path = workspace_root().join(name);
        let text = fs::read(&path).map_err(at(&path))?;
        tree.file(&format!("usr/share/doc/blkkin/{name}"), text, 0o644);
    }
    Ok(tree)
}

fn config(release: &Release, layer_id: &str) -> Value {
    let created = date::rfc3339(release.seconds);
    json!({
        "created": created,
        "architecture": release.platform.oci,
        "os": "linux",
        "config": {
            // By number, so that Kubernetes can check that it is not root.
            "User": format!("{USER}:{USER}"),
            "Entrypoint": ["/usr/bin/blkkin"],
            "Env": [
                "PATH=/usr/bin",
                format!("HOME=/{DATA}"),
                format!("BLKKIN_SERVER_DATA=/{DATA}/spans"),
            ],
            "Volumes": {format!("/{DATA}"): {}},
            "WorkingDir": format!("/{DATA}"),
            "Labels": labels(release),
        },
        "rootfs": {"type": "layers", "diff_ids": [layer_id]},
        "history": [{"created": created, "created_by": "cargo xtask package"}],
    })
}

fn labels(release: &Release) -> Value {
    let mut labels = json!({
        "org.opencontainers.image.created": date::rfc3339(release.seconds),
        "org.opencontainers.image.description": "Follow one request through every layer it crosses",
        "org.opencontainers.image.licenses": env!("CARGO_PKG_LICENSE"),
    });
    if let Some(commit) = &release.commit {
        labels["org.opencontainers.image.revision"] = json!(commit);
    }
    labels["org.opencontainers.image.source"] = json!(env!("CARGO_PKG_REPOSITORY"));
    labels["org.opencontainers.image.title"] = json!("blkkin");
    labels["org.opencontainers.image.version"] = json!(VERSION);
    labels
}

/// Adds a blob to the layout, and returns its descriptor.
fn blob(layout: &mut Tree, media_type: &str, bytes: &[u8]) -> Value {
    let digest = sha256(bytes);
    layout.file(&format!("blobs/sha256/{digest}"), bytes, 0o644);
    json!({"mediaType": media_type, "digest": format!("sha256:{digest}"), "size": bytes.len()})
}

fn bytes(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}
