// Starts `gmlm lsp` and speaks the Language Server Protocol with it.
const { workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

exports.activate = () => {
  const [command, ...args] = workspace.getConfiguration("gmlm").get("command");
  client = new LanguageClient("gmlm", "gmlmdsl", { command, args }, { documentSelector: [{ language: "gmlm" }] });
  return client.start();
};

exports.deactivate = () => client && client.stop();
