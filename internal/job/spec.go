package job

import (
	"fmt"
	"io/fs"

	"hindcast/internal/spec"
)

// Spec parses the job's job.yaml. Errors name the file as jobs/<folder>/job.yaml, and the line.
func (j Job) Spec() (*spec.Spec, error) {
	name := "jobs/" + j.folder + "/job.yaml"
	b, err := fs.ReadFile(j.Files(), "job.yaml")
	if err != nil {
		return nil, fmt.Errorf("%s: %w: write it, and name it in the go:embed line", name, err)
	}
	return spec.Parse(name, b)
}
