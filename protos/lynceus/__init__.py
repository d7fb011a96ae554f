"""The contracts between Lynceus's services and the one way to serve and dial them."""
