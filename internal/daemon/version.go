package daemon

import (
	"runtime/debug"
	"strings"
)

// Release is the version of this source; CHANGELOG.md lists its changes. The release build of a tag sets it.
var Release = "0.1.0-dev"

// Version returns the release, with the commit if the build knows it. A build of a tag is known by the tag alone.
func Version() string {
	if commit := setting("vcs.revision"); len(commit) >= 12 && strings.Contains(Release, "-") {
		return Release + "+" + commit[:12]
	}
	return Release
}

// Date returns the day of the commit, such as 2026-11-30, or "" if the build does not know it.
func Date() string {
	day, _, _ := strings.Cut(setting("vcs.time"), "T")
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
