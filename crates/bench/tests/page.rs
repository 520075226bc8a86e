//! The page of `compare --html` in a browser: `cargo test -p quadrille-bench --test page -- --ignored` (needs
//! Chromium).
//!
//! Two frames show the page as a desktop in light and a phone in dark would; a script in the page around them measures
//! what they look like, and Chromium prints the result. Pictures of both are kept beside the test's other output.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Chromium's names on Debian, other Linux systems and Google's packages.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// Loads the page twice and prints, as JSON, what it looks like in each frame.
const AROUND: &str = r#"<!doctype html><meta charset="utf-8"><body>
<iframe src="page.html" style="color-scheme: light; width: 1280px; height: 900px; border: 0"></iframe>
<iframe src="page.html" style="color-scheme: dark; width: 390px; height: 844px; border: 0"></iframe>
<pre id="found"></pre>
<script>
addEventListener("load", () => {
  const found = [...document.querySelectorAll("iframe")].map(frame => {
    const page = frame.contentDocument, root = page.documentElement;
    const bars = [...page.querySelectorAll(".bar svg")];
    return {
      too_wide: root.scrollWidth - root.clientWidth,
      sections: page.querySelectorAll("section").length,
      bars: bars.length,
      narrowest_bar: Math.min(...bars.map(bar => bar.getBoundingClientRect().width)),
      clipped_names: [...page.querySelectorAll(".bar .name")].filter(name => name.scrollWidth > name.clientWidth + 1).length,
      paper: frame.contentWindow.getComputedStyle(page.body).backgroundColor,
      ink: frame.contentWindow.getComputedStyle(page.body).color,
      loaded: frame.contentWindow.performance.getEntriesByType("resource").length,
    };
  });
  document.getElementById("found").textContent = "FOUND" + JSON.stringify(found) + "END";
});
</script>
"#;

fn browser() -> &'static str {
    let runs = |name: &&&str| {
        Command::new(name)
            .arg("--version")
            .output()
            .is_ok_and(|output| output.status.success())
    };
    BROWSERS.iter().find(runs).expect("a Chromium is installed")
}

/// Runs the browser without a window, and without a network.
fn browse(profile: &Path, arguments: &[&str]) -> String {
    let output = Command::new(browser())
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--allow-file-access-from-files",
        ])
        .args(["--host-resolver-rules=MAP * ~NOTFOUND", "--virtual-time-budget=5000"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn compare(page: &Path) {
    let workloads = ["yield", "ping_pong", "thread_ping_pong"];
    let output = Command::new(env!("CARGO_BIN_EXE_quadrille"))
        .arg("compare")
        .args(workloads)
        .args([
            "--quick",
            "--reps",
            "2",
            "--runtimes",
            "quadrille,quadrille:groups=on,filter=on,aggregation=on,cap=adaptive,lazy=on,tokio,smol,may",
            "--html",
        ])
        .arg(page)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
#[ignore = "needs Chromium; run with --ignored"]
fn a_page_is_readable_on_a_desktop_and_on_a_phone_in_light_and_dark() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("page");
    fs::create_dir_all(&folder).unwrap();
    let (page, around, profile) = (
        folder.join("page.html"),
        folder.join("around.html"),
        folder.join("profile"),
    );
    compare(&page);
    fs::write(&around, AROUND).unwrap();
    let address = |path: &Path| format!("file://{}", path.display());

    let dom = browse(&profile, &["--window-size=1800,1000", "--dump-dom", &address(&around)]);
    let json = dom
        .split_once("<pre id=\"found\">FOUND")
        .and_then(|(_, rest)| rest.split_once("END"))
        .unwrap_or_else(|| panic!("nothing was measured:\n{dom}"))
        .0;
    let found: Vec<Value> = serde_json::from_str(json).unwrap();
    for (frame, narrowest) in found.iter().zip([500.0, 300.0]) {
        assert_eq!(
            frame["too_wide"], 0,
            "nothing but tables scrolls to the side: {found:?}"
        );
        assert_eq!(frame["clipped_names"], 0, "{found:?}");
        // Ratios of tasks and of threads, five workloads, and what the page is about.
        assert_eq!(frame["sections"], 8, "{found:?}");
        assert!(frame["bars"].as_u64() >= Some(16), "{found:?}");
        assert!(frame["narrowest_bar"].as_f64() >= Some(narrowest), "{found:?}");
        assert_eq!(frame["loaded"], 0, "{found:?}");
    }
    assert_ne!(found[0]["paper"], found[1]["paper"], "light and dark: {found:?}");
    assert_eq!(found[0]["ink"], "rgb(28, 29, 33)", "{found:?}");

    for (picture, size) in [("desktop.png", "1280,2400"), ("both.png", "1800,1000")] {
        let shown = if picture == "desktop.png" { &page } else { &around };
        let path = folder.join(picture);
        browse(
            &profile,
            &[
                &format!("--window-size={size}"),
                &format!("--screenshot={}", path.display()),
                &address(shown),
            ],
        );
        assert!(fs::metadata(&path).unwrap().len() > 10_000, "{picture} is a picture");
    }
}
