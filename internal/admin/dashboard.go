package admin

import (
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

// dashboard has the files of the dashboard. third_party/ has the library uPlot 1.6.32, unchanged, with its licence.
//
//go:embed dashboard
var dashboard embed.FS

// dashboardPolicy lets the pages use their own files and this server alone. It allows no inline script or style, no
// frame, and no text as markup.
const dashboardPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// asset is a file of the dashboard.
type asset struct {
	text      []byte
	kind, tag string
}

var assetKinds = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".svg": "image/svg+xml",
}

// assets are the files of the dashboard by their path below /dashboard/.
var assets = func() map[string]asset {
	all := make(map[string]asset)
	_ = fs.WalkDir(dashboard, "dashboard", func(name string, entry fs.DirEntry, err error) error {
		kind := assetKinds[path.Ext(name)]
		if err != nil || entry.IsDir() || kind == "" {
			return err
		}
		text, err := dashboard.ReadFile(name)
		sum := sha256.Sum256(text)
		all[strings.TrimPrefix(name, "dashboard/")] = asset{text, kind, `"` + hex.EncodeToString(sum[:8]) + `"`}
		return err
	})
	return all
}()

// serveDashboard answers with a file of the dashboard. The files are the same for everybody and tell nothing about
// this proxy. So they need no token; the page asks for it.
func serveDashboard(w http.ResponseWriter, r *http.Request) {
	name := cmp.Or(strings.TrimPrefix(r.URL.Path, "/dashboard/"), "index.html")
	file, ok := assets[name]
	if !ok {
		refuse(w, http.StatusNotFound, "not found: "+r.URL.Path)
		return
	}
	limitTime(w, writeTimeout)
	header := w.Header()
	header.Set("Content-Security-Policy", dashboardPolicy)
	header.Set("Content-Type", file.kind)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cache-Control", "no-cache")
	header.Set("ETag", file.tag)
	if r.Header.Get("If-None-Match") == file.tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	_, _ = w.Write(file.text) // an error means that the client is gone
}

// isDashboard reports whether a request is for a file of the dashboard, or for the root, which leads there.
func isDashboard(r *http.Request) bool {
	return r.Method == http.MethodGet && (r.URL.Path == "/" || strings.HasPrefix(r.URL.Path, "/dashboard/"))
}

// toDashboard answers a file of the dashboard, or leads to it.
func toDashboard(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/" {
		http.Redirect(w, r, "/dashboard/", http.StatusFound)
		return
	}
	serveDashboard(w, r)
}
