//go:build interop

package interop_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// java runs peers from source and compiles them at the start.
var java = newRuntime(runtime{
	name: "java", version: []string{"java", "--version"}, pins: jarSums,
	builds: []string{edgeCookies}, install: installJars,
	line: func(dir string) (env, line []string) {
		// Level 1 starts faster.
		return nil, []string{"java", "-XX:TieredStopAtLevel=1", "-cp", dir + ":" + filepath.Join(dir, "*")}
	},
})

// jarSums is the file under peers/ with the hash of every jar, in the format of sha256sum. The file names contain the
// versions.
const jarSums = "jars.sha256"

// installJars makes Maven fetch the jars, and rejects a jar with another hash than in jarSums.
func installJars(dir string) error {
	if err := copyPeerFiles(dir, "pom.xml"); err != nil {
		return err
	}
	if err := command(dir, "mvn", "-B", "-ntp", "-q", "dependency:copy-dependencies", "-DoutputDirectory=."); err != nil {
		return err
	}
	want, err := os.ReadFile(filepath.Join("peers", jarSums))
	if err != nil {
		return err
	}
	got, err := sumJars(dir)
	if err != nil {
		return err
	}
	if got != string(want) {
		return fmt.Errorf("jars differ from %s; they are\n%s", jarSums, got)
	}
	return command("peers", "javac", "-cp", filepath.Join(dir, "*"), "-d", dir, edgeCookies)
}

// edgeCookies is a class that Cloudburst.java uses. The java command compiles only the file that it starts.
const edgeCookies = "EdgeCookies.java"

// sumJars hashes the jars of a directory.
func sumJars(dir string) (string, error) {
	jars, err := filepath.Glob(filepath.Join(dir, "*.jar"))
	if err != nil {
		return "", err
	}
	var sums strings.Builder
	for _, jar := range jars { // sorted
		content, err := os.ReadFile(jar)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(content), filepath.Base(jar))
	}
	return sums.String(), nil
}
