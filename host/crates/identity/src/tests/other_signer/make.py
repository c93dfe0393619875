"""Makes tokens.json: public keys, and tokens that another implementation (PyJWT, with OpenSSL) signed with them.

The private keys are not kept. Needs: pip install pyjwt cryptography
"""

import json
import pathlib

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

CLAIMS = {
    "iss": "https://idp.example.com",
    "aud": "https://gw.example.com/mcp",
    "sub": "ann",
    "groups": ["staff"],
    "iat": 1800000000,
    "exp": 4102444800,
}
KEYS = {
    "rsa": (RSAAlgorithm, rsa.generate_private_key(65537, 2048)),
    "rsa-2047": (RSAAlgorithm, rsa.generate_private_key(65537, 2047)),
    "rsa-1024": (RSAAlgorithm, rsa.generate_private_key(65537, 1024)),
    "p256": (ECAlgorithm, ec.generate_private_key(ec.SECP256R1())),
    "p384": (ECAlgorithm, ec.generate_private_key(ec.SECP384R1())),
    "p521": (ECAlgorithm, ec.generate_private_key(ec.SECP521R1())),
    "secp256k1": (ECAlgorithm, ec.generate_private_key(ec.SECP256K1())),
    "ed25519": (OKPAlgorithm, ed25519.Ed25519PrivateKey.generate()),
}
TOKENS = {
    **{f"{alg}": (alg, "rsa") for alg in ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")},
    "ES256": ("ES256", "p256"),
    "ES384": ("ES384", "p384"),
    "EdDSA": ("EdDSA", "ed25519"),
    "ES512": ("ES512", "p521"),
    "ES256K": ("ES256K", "secp256k1"),
    "RS256 with 2047 bits": ("RS256", "rsa-2047"),
    "RS256 with 1024 bits": ("RS256", "rsa-1024"),
}


def jwk(name):
    algorithm, key = KEYS[name]
    return {"kid": name, "use": "sig", **algorithm.to_jwk(key.public_key(), as_dict=True)}


def token(alg, name):
    return jwt.encode(CLAIMS, KEYS[name][1], alg, headers={"kid": name, "typ": "at+jwt"})


made = {
    "keys": {name: jwk(name) for name in KEYS},
    "tokens": {name: token(*how) for name, how in TOKENS.items()},
}
# PyJWT writes `"key_ops": ["verify"]` too.
pathlib.Path(__file__).with_name("tokens.json").write_text(json.dumps(made, indent=2) + "\n")
