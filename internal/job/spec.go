package job

import (
	"fmt"
	"io/fs"

	"hindcast/internal/spec"
)

// Spec parses the job's job.yaml, and reads the schema that it names. Errors name the file as jobs/<folder>/job.yaml, and the line.
func (j Job) Spec() (*spec.Spec, error) {
	name := "jobs/" + j.folder + "/job.yaml"
	b, err := fs.ReadFile(j.Files(), "job.yaml")
	if err != nil {
		return nil, fmt.Errorf("%s: %w: write it, and name it in the go:embed line", name, err)
	}
	s, err := spec.Parse(name, b)
	if err != nil || s.Source.Segments.Schema == "" {
		return s, err
	}
	text, err := fs.ReadFile(j.Files(), s.Source.Segments.Schema)
	if err != nil {
		return nil, fmt.Errorf("%s: source.segments.schema: the file is not among the job's: write it, and name it in the go:embed line: %w", name, err)
	}
	s.Source.Segments.SchemaText = string(text)
	return s, nil
}
