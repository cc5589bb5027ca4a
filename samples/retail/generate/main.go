// Command generate writes the files of samples/retail from the original CSV:
//
//	go run ./samples/retail/generate ../shared/retail/online-retail.csv.gz samples/retail
package main

import (
	"compress/gzip"
	"fmt"
	"os"

	"hindcast/internal/sample"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: generate CSV.GZ FOLDER")
		os.Exit(2)
	}
	if err := generate(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func generate(file, dir string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	events, err := sample.Read(z)
	if err != nil {
		return err
	}
	return sample.Write(dir, sample.Log(events))
}
