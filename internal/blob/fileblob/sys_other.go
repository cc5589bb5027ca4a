//go:build !linux && !darwin

package fileblob

import (
	"context"
	"errors"
	"io/fs"
	"os"
)

func lockDir(context.Context, string) (*os.File, error) {
	return nil, errors.New("stores on files can be written on Linux and macOS only: here they have no lock that a crash releases")
}

func unlock(*os.File) error { return nil }

func changeOf(fs.FileInfo) (changed int64, inode uint64) { return 0, 0 }
