package packaging

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
)

// TestSiteLayoutsAskNoOthers checks that the layouts of the documentation's site load nothing from other servers.
func TestSiteLayoutsAskNoOthers(t *testing.T) {
	files := 0
	err := filepath.WalkDir("site", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(file) == ".toml" {
			return err
		}
		files++
		b, err := os.ReadFile(file)
		for _, way := range []string{"http:", "https:", "//cdn", "@import", "fetch(", "XMLHttpRequest", "WebSocket"} {
			if strings.Contains(string(b), way) {
				t.Errorf("%s has %s", file, way)
			}
		}
		return err
	})
	if err != nil || files < 5 {
		t.Errorf("%d files, %v", files, err)
	}
}

var linked = regexp.MustCompile(`\]\(([^)#:]+\.\w+)\)`)

// TestSiteHasLinkedFiles checks, without making the site, that it has each file to which a page links.
func TestSiteHasLinkedFiles(t *testing.T) {
	b, err := os.ReadFile("site/hugo.toml")
	var site struct{ Module struct{ Mounts []mount } }
	if err == nil {
		err = toml.Unmarshal(b, &site)
	}
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	err = filepath.WalkDir("../docs", func(page string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(page) != ".md" {
			return err
		}
		text, err := os.ReadFile(page)
		for _, found := range linked.FindAllStringSubmatch(string(text), -1) {
			file := path.Join(path.Dir(filepath.ToSlash(page)), found[1])
			if path.Ext(file) == ".md" {
				continue
			}
			files++
			if !slices.ContainsFunc(site.Module.Mounts, func(m mount) bool { return m.has("../" + file) }) {
				t.Errorf("%s: the site has no %s", page, file)
			}
		}
		return err
	})
	if err != nil || files < 20 {
		t.Errorf("%d files, %v", files, err)
	}
}

// A mount is a file or a folder in the site, with the patterns of Hugo that choose the folder's files.
type mount struct {
	Source, Target string
	Files          []string
}

func (m mount) has(file string) bool {
	inside, ok := strings.CutPrefix(file, m.Source+"/")
	if !ok || !strings.HasPrefix(m.Target, "static/") {
		return file == m.Source
	}
	return !slices.ContainsFunc(m.Files, func(pattern string) bool {
		pattern, excludes := strings.CutPrefix(pattern, "! ")
		ending, all := strings.CutPrefix(pattern, "**")
		folder := strings.TrimSuffix(pattern, "/**") + "/"
		return excludes && (all && strings.HasSuffix(inside, ending) || strings.HasPrefix(inside, folder))
	})
}

var (
	reference = regexp.MustCompile(`<(\w+)[^>]*?\s(?:href|src|srcset)=(?:"([^"]*)"|([^\s>"]+))`)
	anchor    = regexp.MustCompile(`\sid=(?:"([^"]*)"|([^\s>"]+))`)
)

// TestSite checks the site that make site has made in TIDEGATE_SITE: every link and its anchor lead somewhere, only
// links that a reader follows lead to other servers, and the search knows every page.
func TestSite(t *testing.T) {
	root := os.Getenv("TIDEGATE_SITE")
	if root == "" {
		t.Skip("make site runs this test")
	}
	pages := make(map[string]string)
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(file) != ".html" {
			return err
		}
		b, err := os.ReadFile(file)
		name, _ := filepath.Rel(root, file)
		pages[filepath.ToSlash(name)] = string(b)
		return err
	})
	if err != nil || len(pages) < 30 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for name, text := range pages {
		for _, found := range reference.FindAllStringSubmatch(text, -1) {
			if fault := followed(root, pages, name, found[1], found[2]+found[3]); fault != "" {
				t.Errorf("%s: %s", name, fault)
			}
		}
	}
	b, err := os.ReadFile(filepath.Join(root, "search-index.js"))
	if err != nil {
		t.Fatal(err)
	}
	var index []struct{ Title, Link, Text string }
	data := strings.TrimPrefix(strings.TrimSpace(string(b)), "window.searchIndex = ")
	if err := json.Unmarshal([]byte(data), &index); err != nil {
		t.Fatal(err)
	}
	known := make(map[string]bool)
	for _, entry := range index {
		fault := followed(root, pages, "index.html", "a", entry.Link)
		if fault != "" || entry.Title == "" || entry.Text == "" {
			t.Errorf("search: %+v: %s", entry.Link, fault)
		}
		page, _, _ := strings.Cut(entry.Link, "#")
		known[page] = true
	}
	for name := range pages {
		if !known[name] {
			t.Errorf("the search does not know %s", name)
		}
	}
}

// followed follows a reference of a page and returns its fault.
func followed(root string, pages map[string]string, from, tag, to string) string {
	u, err := url.Parse(to)
	switch {
	case err != nil:
		return err.Error()
	case u.Scheme == "data" || tag == "a" && u.Host != "":
		return ""
	case u.Scheme != "" || u.Host != "":
		return "<" + tag + "> loads " + to
	}
	target := from
	if u.Path != "" {
		target = path.Join(path.Dir(from), u.Path)
	}
	if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(target))); err != nil {
		return to + " is not there"
	}
	if u.Fragment == "" {
		return ""
	}
	for _, found := range anchor.FindAllStringSubmatch(pages[target], -1) {
		if found[1]+found[2] == u.Fragment {
			return ""
		}
	}
	return to + " has no such heading"
}

// TestSiteOnAPhone opens a page in a small window of Chromium: the heading is on the first screen, and the menu opens
// by its button.
func TestSiteOnAPhone(t *testing.T) {
	root := os.Getenv("TIDEGATE_SITE")
	if root == "" {
		t.Skip("make site runs this test")
	}
	if _, err := exec.LookPath("chromium"); err != nil {
		t.Skip(err)
	}
	folder := filepath.Join(root, "docs", "tutorials")
	text, err := os.ReadFile(filepath.Join(folder, "riptide-on-raknet.html"))
	if err != nil {
		t.Fatal(err)
	}
	const measure = `<script>addEventListener("load", () => {
		const top = () => Math.round(document.querySelector("h1").getBoundingClientRect().top), shut = top();
		document.getElementById("menu").click();
		document.title = [innerWidth, shut, top(), document.documentElement.scrollWidth].join(" ");
	})</script>`
	page := filepath.Join(folder, "on-a-phone.html")
	if err := os.WriteFile(page, append(text, measure...), 0o600); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.Remove(page) }()
	out, err := exec.Command("chromium", "--headless", "--no-sandbox", "--window-size=390,844", "--dump-dom",
		"file://"+page).Output()
	var width, shut, open, wide int
	_, title, _ := strings.Cut(string(out), "<title>")
	if _, scanned := fmt.Sscan(title, &width, &shut, &open, &wide); err != nil || scanned != nil {
		t.Fatalf("%v, %v: %.200s", err, scanned, title)
	}
	if width > 500 || wide > width || shut > 200 || open < 800 { // without a screenshot, Chromium has 500 pixels at least
		t.Errorf("%d of %d pixels wide; the heading is at %d, and at %d below the open menu", wide, width, shut, open)
	}
}
