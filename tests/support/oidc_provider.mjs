// A real OpenID provider for tests: prints its address; any login signs in, and is the subject.
import Provider from 'oidc-provider';
import http from 'node:http';

const [redirect] = process.argv.slice(2);
const server = http.createServer();
server.listen(0, '127.0.0.1', () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: [{
      client_id: 'rye',
      client_secret: 'secret-of-rye',
      redirect_uris: [redirect],
      token_endpoint_auth_method: 'client_secret_post',
    }],
    claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['preferred_username'] },
    conformIdTokenClaims: false,
    findAccount: (_, id) => ({
      accountId: id,
      claims: () => ({
        sub: id,
        email: `${id}@example.org`,
        email_verified: true,
        preferred_username: id,
      }),
    }),
    cookies: { keys: ['not a secret'] },
    pkce: { required: () => true },
  });
  server.on('request', provider.callback());
  console.log(issuer);
});
process.stdin.resume();
process.stdin.on('end', () => process.exit(0));
