package main

import (
	"archive/tar"
	"archive/zip"
	"compress/flate"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// archive packs a folder: as zip for Windows, else as tar.gz.
func (r *release) archive(p platform, folder string) error {
	name, pack := r.stem(p)+".tar.gz", writeTar
	if p.os == "windows" {
		name, pack = r.stem(p)+".zip", writeZip
	}
	file, err := os.Create(filepath.Join(r.folder, name))
	if err != nil {
		return err
	}
	return errors.Join(pack(file, folder, r.date), file.Close())
}

// eachFile calls do for every file below a folder, in the order of their names. The name in the archive begins with the
// folder's. Owners, times and most permissions of the files play no role.
func eachFile(folder string, do func(name string, mode fs.FileMode, content []byte) error) error {
	base := filepath.Dir(folder)
	return filepath.WalkDir(folder, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(base, file)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		mode := fs.FileMode(0o644)
		if first := path.Base(name); first == "tidegate" || first == "tidegate.exe" {
			mode = 0o755
		}
		return do(name, mode, content)
	})
}

func writeTar(w io.Writer, folder string, date time.Time) error {
	packed, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(packed)
	err = eachFile(folder, func(name string, mode fs.FileMode, content []byte) error {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: name, Mode: int64(mode), Size: int64(len(content)), ModTime: date,
			Uname: "root", Gname: "root", Format: tar.FormatUSTAR,
		}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		_, err := archive.Write(content)
		return err
	})
	return errors.Join(err, archive.Close(), packed.Close())
}

func writeZip(w io.Writer, folder string, date time.Time) error {
	archive := zip.NewWriter(w)
	archive.RegisterCompressor(zip.Deflate, func(out io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(out, flate.BestCompression)
	})
	err := eachFile(folder, func(name string, mode fs.FileMode, content []byte) error {
		header := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: date}
		header.SetMode(mode)
		file, err := archive.CreateHeader(header)
		if err != nil {
			return err
		}
		_, err = file.Write(content)
		return err
	})
	return errors.Join(err, archive.Close())
}

// writeSums writes the checksums of all files of a folder into it.
func writeSums(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(content), entry.Name())
	}
	return os.WriteFile(filepath.Join(folder, "SHA256SUMS"), []byte(sums.String()), 0o644)
}
