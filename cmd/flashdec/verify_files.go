package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// caseFile is a file that may be a case.
type caseFile struct {
	path  string
	found bool // in a folder, and not named
}

// caseFiles replaces folders by the files in them, and in the folders in them,
// that may be cases, in the order of their paths.
func caseFiles(paths []string) ([]caseFile, error) {
	var files []caseFile
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil || !info.IsDir() {
			files = append(files, caseFile{path: path}) // what is wrong with it is the file's own report
			continue
		}
		found, err := casesIn(path)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("%s: the folder holds no .safetensors or .npz file", path)
		}
		for _, path := range found {
			files = append(files, caseFile{path, true})
		}
	}
	return files, nil
}

func casesIn(folder string) (files []string, err error) {
	err = filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		hidden := path != folder && strings.HasPrefix(e.Name(), ".")
		switch ext := strings.ToLower(filepath.Ext(path)); {
		case err != nil:
			return err
		case e.IsDir() && hidden:
			return fs.SkipDir
		case !e.IsDir() && !hidden && (ext == ".safetensors" || ext == ".npz"):
			files = append(files, path)
		}
		return nil
	})
	return files, err
}
