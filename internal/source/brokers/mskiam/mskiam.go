// Package mskiam says to Amazon MSK who we are, by the AWS SDK's credentials. It was not run against MSK.
package mskiam

import (
	"context"
	"errors"
	"fmt"
	"sync"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/aws"
)

// Mechanism is AWS_MSK_IAM with the credentials of the environment, the shared configuration, a container or an instance, looked for
// when a first connection is made, and renewed by the SDK. The region is that of the broker's name, or AWS_REGION.
func Mechanism() sasl.Mechanism {
	var (
		mu    sync.Mutex
		creds awssdk.CredentialsProvider
	)
	return aws.ManagedStreamingIAM(func(ctx context.Context) (aws.Auth, error) {
		mu.Lock()
		defer mu.Unlock()
		if creds == nil {
			cfg, err := config.LoadDefaultConfig(ctx)
			if err != nil {
				return aws.Auth{}, fmt.Errorf("read the AWS configuration: %w", err)
			}
			if cfg.Credentials == nil {
				return aws.Auth{}, errors.New("there are no AWS credentials")
			}
			creds = cfg.Credentials // which caches
		}
		c, err := creds.Retrieve(ctx)
		if err != nil {
			return aws.Auth{}, fmt.Errorf("find AWS credentials: %w", err)
		}
		return aws.Auth{AccessKey: c.AccessKeyID, SecretKey: c.SecretAccessKey, SessionToken: c.SessionToken, UserAgent: "hindcast"}, nil
	})
}
