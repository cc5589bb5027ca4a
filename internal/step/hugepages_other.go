//go:build !linux

package step

func hugePages() {}
