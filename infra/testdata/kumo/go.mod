// Asks kumo's Step Functions alone. The module is named so that it may import that package: what kumo offers to others is a server of a hundred
// services, which takes minutes to compile.
module github.com/sivchari/kumo/asked

go 1.26.0

require github.com/sivchari/kumo v0.33.1

require github.com/google/uuid v1.6.0 // indirect
