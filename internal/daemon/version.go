package daemon

import (
	"cmp"
	"runtime/debug"
	"strings"
)

// Release is the version of this source; CHANGELOG.md lists its changes. A release build sets it, commit and date.
var Release = "0.1.0-dev"

// commit and date are set by a release build. Other builds ask the go command's notes.
var commit, date string

// Version returns the release. Between releases it has the commit, too, if the build knows it.
func Version() string {
	if id := cmp.Or(commit, setting("vcs.revision")); len(id) >= 12 && strings.Contains(Release, "-") {
		return Release + "+" + id[:12]
	}
	return Release
}

// Date returns the day of the commit, such as 2026-11-30, or "" if the build does not know it.
func Date() string {
	day, _, _ := strings.Cut(cmp.Or(date, setting("vcs.time")), "T")
	return day
}

// setting returns a setting of the build.
func setting(key string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}
